"""Health checks: 200 when all is well, else 503 with a reason."""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sluicemq.manage.record_columns import VHOSTS
from sluicemq.management.api_error import bad_request
from sluicemq.management.call import ApiAnswer, ApiRoute, Call
from sluicemq.management.cluster_inventory import node_name
from sluicemq.management.node_shape import listeners
from sluicemq.management.sign_in import MONITORING

OK: Final = ApiAnswer({"status": "ok"})
UNIT_DAYS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}


def failed(reason: str, **more: Any) -> ApiAnswer:
    """Return the answer of a failed check, with the reason."""
    return ApiAnswer({"status": "failed", "reason": reason, **more}, 503)


async def alarms(call: Call) -> ApiAnswer:
    """Check that no alarm is raised in the cluster."""
    name = await call.desk.node_name()
    raised = [
        {"node": name if row["scope"] == "local" else row["scope"], "resource": row["resource"]}
        for row in await call.desk.link.ask("alarms")
    ]
    if not raised:
        return OK
    return failed("There are alarms in effect in the cluster", alarms=raised)


async def local_alarms(call: Call) -> ApiAnswer:
    """Check that no alarm is raised on this node."""
    node = await call.desk.inventory.node()
    if not node["alarms"]:
        return OK
    name = node_name(node)
    raised = [{"node": name, "resource": each} for each in node["alarms"]]
    return failed("There are alarms in effect on the node", alarms=raised)


async def port_listener(call: Call) -> ApiAnswer:
    """Check that this node listens at a port."""
    text = call.path["port"]
    if not text.isdecimal() or len(text) > 5:
        raise bad_request("the port must be a number")
    port = int(text)
    node = await call.desk.inventory.node()
    ports = sorted({each["port"] for each in listeners(node, call.desk.listeners)})
    if port in ports:
        return ApiAnswer({"status": "ok", "port": port})
    return failed("No active listener", missing=port, ports=ports)


async def protocol_listener(call: Call) -> ApiAnswer:
    """Check that this node listens for a protocol."""
    wanted = call.path["protocol"]
    node = await call.desk.inventory.node()
    protocols = sorted({each["protocol"] for each in listeners(node, call.desk.listeners)})
    names = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}
    if names.get(wanted, wanted) in protocols:
        return ApiAnswer({"status": "ok", "protocol": wanted})
    return failed("No active listener", missing=wanted, protocols=protocols)


async def virtual_hosts(call: Call) -> ApiAnswer:
    """Check that all virtual hosts run, as they do whenever the broker answers."""
    await call.desk.inventory.all(VHOSTS)
    return OK


async def quorum_critical(call: Call) -> ApiAnswer:
    """Check that no quorum queue would lose its majority without this node."""
    rows = await call.desk.link.ask("cluster_status")
    if len(rows) == 1:
        return ApiAnswer({"status": "ok", "reason": "single node cluster"})
    return OK


async def in_service(call: Call) -> ApiAnswer:
    """Check that the node accepts clients."""
    node = await call.desk.inventory.node()
    return OK if node["listeners"] else failed("Node is not ready to serve clients")


async def below_limit(call: Call) -> ApiAnswer:
    """Check that the node has room for more connections."""
    node = await call.desk.inventory.node()
    open_ones, most = node["totals"]["connections"], node["sockets_max"]
    if open_ones < most:
        return OK
    return failed("Node has reached its connection limit", connections=open_ones, limit=most)


async def certificates(call: Call) -> ApiAnswer:
    """Check that no certificate expires within so many days, weeks, months or years."""
    text, unit = call.path["within"], call.path["unit"]
    if not text.isdecimal() or len(text) > 4 or unit not in UNIT_DAYS:
        raise bad_request(f"the time must be a number and one of {', '.join(UNIT_DAYS)}")
    until_s = time.time() + int(text) * UNIT_DAYS[unit] * 86_400
    expired = []
    config = call.desk.config
    for file in (config.tls.certfile, config.management.certfile):
        ends_s = end_of(file) if file is not None and Path(file).exists() else None
        if ends_s is not None and ends_s < until_s:
            date = datetime.fromtimestamp(ends_s, UTC).isoformat()
            expired.append({"certfile": file, "certfile_expires_on": [date]})
    if expired:
        return failed("Certificates expiring", expired=expired)
    return OK


def end_of(file: str) -> float | None:
    """Return when the first certificate of a file expires, in seconds since the epoch; None when
    the file has none."""
    try:
        decoded = ssl._ssl._test_decode_cert(file)  # type: ignore[attr-defined]
    except (OSError, ssl.SSLError):
        return None
    return float(ssl.cert_time_to_seconds(decoded["notAfter"]))


CHECKS: Final = "health/checks"
ROUTES: Final = (
    ApiRoute("GET", f"{CHECKS}/alarms", MONITORING, alarms),
    ApiRoute("GET", f"{CHECKS}/local-alarms", MONITORING, local_alarms),
    ApiRoute("GET", f"{CHECKS}/port-listener/{{port}}", MONITORING, port_listener),
    ApiRoute("GET", f"{CHECKS}/protocol-listener/{{protocol}}", MONITORING, protocol_listener),
    ApiRoute("GET", f"{CHECKS}/virtual-hosts", MONITORING, virtual_hosts),
    ApiRoute("GET", f"{CHECKS}/node-is-mirror-sync-critical", MONITORING, quorum_critical),
    ApiRoute("GET", f"{CHECKS}/node-is-quorum-critical", MONITORING, quorum_critical),
    ApiRoute("GET", f"{CHECKS}/is-in-service", MONITORING, in_service),
    ApiRoute("GET", f"{CHECKS}/ready-to-serve-clients", MONITORING, in_service),
    ApiRoute("GET", f"{CHECKS}/below-node-connection-limit", MONITORING, below_limit),
    ApiRoute(
        "GET", f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}", MONITORING, certificates
    ),
)
