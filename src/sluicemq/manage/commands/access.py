"""Commands for users, what they may do, and virtual hosts."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

USER: Final = CommandArgument("username")
PASSWORD: Final = CommandArgument("password", secret=True)
VHOST: Final = CommandArgument("vhost")
CONFIGURE: Final = "regular expression for the names it may declare and delete"
WRITE: Final = "regular expression for the names it may publish to, or bind as a destination"
READ: Final = "regular expression for the names it may consume from, or bind as a source"
WRITE_KEYS: Final = "regular expression for the routing keys it may publish with"
READ_KEYS: Final = "regular expression for the routing keys it may bind with"
LIMITS: Final = "the limits as JSON; a negative limit means no limit"

USER_COMMANDS: Final = (
    Command(
        "add_user",
        "Add a user without permissions. A user with an empty password cannot log in with one.",
        (USER, PASSWORD),
        announces='Adding user "{username}" ...',
    ),
    Command(
        "delete_user",
        "Delete a user and its permissions, and close its connections.",
        (USER,),
        announces='Deleting user "{username}" ...',
    ),
    Command(
        "change_password",
        "Change a user's password. Open connections stay open.",
        (USER, PASSWORD),
        announces='Changing password for user "{username}" ...',
    ),
    Command(
        "clear_password",
        "Remove a user's password, so that the user cannot log in with one.",
        (USER,),
        announces='Clearing password for user "{username}" ...',
    ),
    Command(
        "authenticate_user",
        "Check a user's password; the exit code is 0 when it is right.",
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
        columns={"user": "the user's name", "tags": "the user's tags"},
    ),
    Command(
        "hash_password",
        "Print the hash of a password, for use in a definitions file.",
        (PASSWORD,),
        columns={"password_hash": "the hash with a new salt (rabbit_password_hashing_sha256)"},
    ),
)

PERMISSION_COMMANDS: Final = (
    Command(
        "set_permissions",
        "Set a user's permissions in a virtual host: three regular expressions for names.",
        (USER, CommandArgument("configure"), CommandArgument("write"), CommandArgument("read")),
        announces='Setting permissions for user "{username}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_permissions",
        "Remove a user's permissions in a virtual host.",
        (USER,),
        announces='Clearing permissions for user "{username}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_permissions",
        "List the permissions of all users in a virtual host.",
        columns={"user": "the user", "configure": CONFIGURE, "write": WRITE, "read": READ},
        per_vhost=True,
    ),
    Command(
        "list_user_permissions",
        "List the permissions of a user in all virtual hosts.",
        (USER,),
        columns={"vhost": "the virtual host", "configure": CONFIGURE, "write": WRITE, "read": READ},
    ),
    Command(
        "set_topic_permissions",
        "Limit a user at a topic exchange to routing keys that match regular expressions.",
        (USER, CommandArgument("exchange"), CommandArgument("write"), CommandArgument("read")),
        announces='Setting topic permissions on "{exchange}" for user "{username}" in vhost'
        ' "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_topic_permissions",
        "Remove a user's topic permissions for one exchange, or for all exchanges.",
        (USER, CommandArgument("exchange", optional=True)),
        announces='Clearing topic permissions for user "{username}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_topic_permissions",
        "List the topic permissions of all users in a virtual host.",
        columns={
            "user": "the user",
            "exchange": "the exchange",
            "write": WRITE_KEYS,
            "read": READ_KEYS,
        },
        per_vhost=True,
    ),
    Command(
        "list_user_topic_permissions",
        "List the topic permissions of a user in all virtual hosts.",
        (USER,),
        columns={
            "vhost": "the virtual host",
            "exchange": "the exchange",
            "write": WRITE_KEYS,
            "read": READ_KEYS,
        },
    ),
)

VHOST_COMMANDS: Final = (
    Command(
        "add_vhost",
        "Add a virtual host. No user has permissions in it yet. An existing one is not changed.",
        (VHOST,),
        (
            CommandOption("description", "A description of the virtual host."),
            CommandOption("tags", "Tags, separated by commas."),
            CommandOption(
                "default_queue_type", "The type of durable queues that are declared without a type."
            ),
        ),
        announces='Adding vhost "{vhost}" ...',
    ),
    Command(
        "delete_vhost",
        "Delete a virtual host and everything in it, and close its connections.",
        (VHOST,),
        announces='Deleting vhost "{vhost}" ...',
    ),
    Command(
        "list_vhosts",
        "List the virtual hosts.",
        (CommandArgument("columns", many=True),),
        columns={
            "name": "the virtual host's name",
            "description": "its description",
            "tags": "its tags",
            "tracing": "whether messages are traced; always false, for there is no tracing",
            "default_queue_type": "the type of durable queues that are declared without a type",
        },
        shown=("name",),
    ),
    Command(
        "set_vhost_limits",
        "Replace all limits of a virtual host: max-connections, max-queues.",
        (CommandArgument("definition"),),
        announces='Setting vhost limits to "{definition}" for vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_vhost_limits",
        "Remove all limits of a virtual host.",
        announces='Clearing vhost "{vhost}" limits ...',
        per_vhost=True,
    ),
    Command(
        "list_vhost_limits",
        "List the limits of a virtual host.",
        options=(
            CommandOption(
                "global_",
                "List the limits of all virtual hosts that have any.",
                False,
                ("--global",),
            ),
        ),
        columns={"vhost": "the virtual host", "limits": LIMITS},
        per_vhost=True,
    ),
    Command(
        "set_user_limits",
        "Set limits of a user: max-connections, max-channels. Limits not named stay.",
        (USER, CommandArgument("definition")),
        announces='Setting user limits to "{definition}" for user "{username}" ...',
    ),
    Command(
        "clear_user_limits",
        'Remove one limit of a user, or "all".',
        (USER, CommandArgument("limit_type")),
        announces='Clearing "{limit_type}" limit for user "{username}" ...',
    ),
    Command(
        "list_user_limits",
        "List the limits of one user, or of all users that have any.",
        options=(
            CommandOption("user", "List the limits of this user only.", None),
            CommandOption(
                "global_", "List the limits of all users, as without --user.", False, ("--global",)
            ),
        ),
        columns={"user": "the user", "limits": LIMITS},
    ),
)

COMMANDS: Final = (*USER_COMMANDS, *PERMISSION_COMMANDS, *VHOST_COMMANDS)
