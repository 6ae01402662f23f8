"""Goal: Spark reads and writes over TLS. Method: our broker with a certificate made for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicemq.client.blocking import connect
from spark.amqp_messages import numbers
from support import broker
from tls.pki import make_pki

pytestmark = pytest.mark.spark


def test_rows_go_both_ways_over_tls(spark: SparkSession, name: str, tmp_path: Path) -> None:
    pki = make_pki(tmp_path)
    (tmp_path / "data").mkdir()
    with broker.serving(tmp_path / "data", *pki.settings()) as target:
        with connect(target.url) as client:
            client.declare_queue(name)
        options = {
            "uri": f"amqps://guest:guest@localhost:{target.tls_port}/",
            "cafile": str(tmp_path / "ca.pem"),
        }
        frame = spark.range(3000).selectExpr("string(id) as body")
        writer = frame.write.format("amqp").mode("append").options(**options)
        writer.option("routingKey", name).save()
        rows = spark.read.format("amqp").options(**options).option("queue", name).load()
        assert numbers(rows) == list(range(3000))
        without = spark.read.format("amqp").option("uri", options["uri"]).option("queue", name)
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
            without.options(reconnectFor="0").load().count()
