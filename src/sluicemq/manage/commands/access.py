"""Commands for users, what they may do, and virtual hosts."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

USER: Final = CommandArgument("username")
PASSWORD: Final = CommandArgument("password", secret=True)
VHOST: Final = CommandArgument("vhost")
CONFIGURE: Final = "names of what it may declare and delete, a regular expression"
WRITE: Final = "of what it may publish to and bind"
READ: Final = "of what it may consume and bind from"
WRITE_KEYS: Final = "the routing keys it may publish with, a regular expression"
READ_KEYS: Final = "those it may bind with"
LIMITS: Final = "as JSON; a negative one is none"

USER_COMMANDS: Final = (
    Command(
        "add_user",
        "Add a user, who may nothing yet. With an empty password it cannot log in by one.",
        (USER, PASSWORD),
        announces='Adding user "{username}" ...',
    ),
    Command(
        "delete_user",
        "Delete a user with all permissions, and close its connections.",
        (USER,),
        announces='Deleting user "{username}" ...',
    ),
    Command(
        "change_password",
        "Give a user another password. Its connections stay open.",
        (USER, PASSWORD),
        announces='Changing password for user "{username}" ...',
    ),
    Command(
        "clear_password",
        "Take a user's password away: it cannot log in by one any more.",
        (USER,),
        announces='Clearing password for user "{username}" ...',
    ),
    Command(
        "authenticate_user",
        "Try a user's password; the exit code is 0 when it is right.",
        (USER, PASSWORD),
        announces='Authenticating user "{username}" ...',
    ),
    Command(
        "set_user_tags",
        "Replace a user's tags: administrator, monitoring, policymaker, management, impersonator.",
        (USER, CommandArgument("tags", many=True)),
        announces='Setting tags for user "{username}" ...',
    ),
    Command(
        "list_users",
        "List the users with their tags.",
        columns={"user": "its name", "tags": "its tags"},
    ),
    Command(
        "hash_password",
        "Hash a password, for a file of definitions.",
        (PASSWORD,),
        columns={"password_hash": "with a new salt, rabbit_password_hashing_sha256"},
    ),
)

PERMISSION_COMMANDS: Final = (
    Command(
        "set_permissions",
        "Let a user into a virtual host, to do there what three regular expressions allow.",
        (USER, CommandArgument("configure"), CommandArgument("write"), CommandArgument("read")),
        announces='Setting permissions for user "{username}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_permissions",
        "Let a user into a virtual host no more.",
        (USER,),
        announces='Clearing permissions for user "{username}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_permissions",
        "List who may do what in a virtual host.",
        columns={"user": "who", "configure": CONFIGURE, "write": WRITE, "read": READ},
        per_vhost=True,
    ),
    Command(
        "list_user_permissions",
        "List what a user may do, and where.",
        (USER,),
        columns={"vhost": "where", "configure": CONFIGURE, "write": WRITE, "read": READ},
    ),
    Command(
        "set_topic_permissions",
        "Allow a user at a topic exchange only routing keys that match.",
        (USER, CommandArgument("exchange"), CommandArgument("write"), CommandArgument("read")),
        announces='Setting topic permissions on "{exchange}" for user "{username}" in vhost'
        ' "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_topic_permissions",
        "Allow all routing keys again, at one exchange or at all.",
        (USER, CommandArgument("exchange", optional=True)),
        announces='Clearing topic permissions for user "{username}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_topic_permissions",
        "List which routing keys are allowed to whom in a virtual host.",
        columns={"user": "who", "exchange": "where", "write": WRITE_KEYS, "read": READ_KEYS},
        per_vhost=True,
    ),
    Command(
        "list_user_topic_permissions",
        "List which routing keys are allowed to a user.",
        (USER,),
        columns={
            "vhost": "where",
            "exchange": "at which exchange",
            "write": WRITE_KEYS,
            "read": READ_KEYS,
        },
    ),
)

VHOST_COMMANDS: Final = (
    Command(
        "add_vhost",
        "Add a virtual host, which nobody may enter yet. One that is there stays as it is.",
        (VHOST,),
        (
            CommandOption("description", "What it is for."),
            CommandOption("tags", "Separated by commas."),
            CommandOption("default_queue_type", "The type of durable queues declared without one."),
        ),
        announces='Adding vhost "{vhost}" ...',
    ),
    Command(
        "delete_vhost",
        "Delete a virtual host with all that is in it, and close its connections.",
        (VHOST,),
        announces='Deleting vhost "{vhost}" ...',
    ),
    Command(
        "list_vhosts",
        "List the virtual hosts.",
        (CommandArgument("columns", many=True),),
        columns={
            "name": "its name",
            "description": "what it is for",
            "tags": "its tags",
            "tracing": "whether messages are traced, which this broker cannot yet",
            "default_queue_type": "the type of durable queues declared without one",
        },
        shown=("name",),
    ),
    Command(
        "set_vhost_limits",
        "Replace a virtual host's limits: max-connections, max-queues.",
        (CommandArgument("definition"),),
        announces='Setting vhost limits to "{definition}" for vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_vhost_limits",
        "Take a virtual host's limits away.",
        announces='Clearing vhost "{vhost}" limits ...',
        per_vhost=True,
    ),
    Command(
        "list_vhost_limits",
        "List the limits of a virtual host.",
        options=(CommandOption("global_", "Of all that have some.", False, ("--global",)),),
        columns={"vhost": "whose", "limits": LIMITS},
        per_vhost=True,
    ),
    Command(
        "set_user_limits",
        "Set limits of a user: max-connections, max-channels. Others stay.",
        (USER, CommandArgument("definition")),
        announces='Setting user limits to "{definition}" for user "{username}" ...',
    ),
    Command(
        "clear_user_limits",
        'Take a limit of a user away, or "all".',
        (USER, CommandArgument("limit_type")),
        announces='Clearing "{limit_type}" limit for user "{username}" ...',
    ),
    Command(
        "list_user_limits",
        "List the limits of one user, or of all that have some.",
        options=(
            CommandOption("user", "Of this one only.", None),
            CommandOption("global_", "Of all, as without --user.", False, ("--global",)),
        ),
        columns={"user": "whose", "limits": LIMITS},
    ),
)

COMMANDS: Final = (*USER_COMMANDS, *PERMISSION_COMMANDS, *VHOST_COMMANDS)
