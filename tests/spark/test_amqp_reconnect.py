"""Goal: a sink that loses its connection publishes the rest again. Method: a proxy that cuts the
first connections after so many octets. No Spark session.
"""

from __future__ import annotations

import select
import socket
import threading

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from sluicemq.spark.encoding import Columns, WriterTask
from sluicemq.spark.options import Options
from sluicemq.spark.sink import write_rows
from spark.amqp_messages import Broker
from support.broker import Target

CUT_AFTER_BYTES = 150_000
CUTS = 3


class Proxy(threading.Thread):
    """Passes octets on; hangs up on the first connections after CUT_AFTER_BYTES each."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self.target = target
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection((self.target.host, self.target.port))
            with client, server:
                self.pass_on(client, server)

    def pass_on(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        while True:
            for ready in select.select((client, server), (), ())[0]:
                data = ready.recv(4096)
                if not data:
                    return
                (server if ready is client else client).sendall(data)
                passed += len(data) if ready is client else 0
            if self.cuts < CUTS and passed > CUT_AFTER_BYTES:
                self.cuts += 1
                return


def test_every_row_arrives_though_connections_are_cut(
    target: Target, amqp: Broker, name: str
) -> None:
    amqp.declare(name)
    proxy = Proxy(target)
    proxy.start()
    uri = f"amqp://{target.user}:{target.password}@127.0.0.1:{proxy.port}/"
    options = Options.parse({"uri": uri, "routingKey": name, "retryBackoff": "1"}, "sink")
    columns = Columns(options, StructType([StructField("body", StringType())]))
    numbers = [str(n).ljust(300, ".") for n in range(3000)]
    batch = pa.RecordBatch.from_pydict({"body": pa.array(numbers)})
    assert write_rows(options, columns, WriterTask("q", 0, 0), iter([batch])) == 3000
    proxy.listener.close()
    assert proxy.cuts == CUTS
    with amqp.admin() as admin:
        count = admin.count_queues([name])
    arrived = {int(body.rstrip(b".")) for _, body in amqp.take(name, count)}
    assert arrived == set(range(3000))
    assert count < 6000
