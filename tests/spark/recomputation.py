"""The figures of a report once more, by DuckDB, from run.json and the raw rows alone.

Rows and columns have the order and the names that they have in the report's results. Latencies are
exact, by nearest rank. It is a program, for DuckDB leaves words behind at the end of its process.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

Row = dict[str, Any]
QUANTILES = {"p50_ms": 0.5, "p75_ms": 0.75, "p95_ms": 0.95, "p99_ms": 0.99}
KINDS = {
    "confirm_service": ("published", "written_ns"),
    "confirm_response": ("published", "intended_ns"),
    "end_to_end_service": ("delivered", "written_ns"),
    "end_to_end_response": ("delivered", "intended_ns"),
}

MESSAGES = """
CREATE TABLE {table} AS
SELECT m.*, {end} AS end_ns, {at} // 1000000000 AS second, written_ns >= warm_ns AS warm
FROM read_parquet('{run}/{table}/*.parquet') m JOIN steps USING (step)
"""

SECONDS = """
CREATE TABLE seconds AS
WITH numbers AS (
  SELECT unnest(range((SELECT max(second) + 1 FROM counters))) AS second
), counted AS (
  SELECT n.second, s.step,
    coalesce(n.second * 1000000000 >= warm_ns AND (n.second + 1) * 1000000000 <= s.end_ns, false)
      AS measured,
    (SELECT count(*) FROM schedule WHERE at_ns // 1000000000 = n.second) AS intended_per_s,
    (SELECT count(*) FROM published WHERE written_ns // 1000000000 = n.second) AS published_per_s,
    (SELECT count(*) FROM published WHERE confirmed_ns // 1000000000 = n.second) AS confirmed_per_s,
    (SELECT count(*) FROM delivered WHERE delivered_ns // 1000000000 = n.second) AS delivered_per_s,
    (SELECT count(*) FROM delivered WHERE acked_ns // 1000000000 = n.second) AS acked_per_s,
    (SELECT count(*) FROM published WHERE {confirms} AND written_ns < (n.second + 1) * 1000000000
      AND coalesce(confirmed_ns >= (n.second + 1) * 1000000000, true)) AS unconfirmed,
    (SELECT count(*) FROM delivered WHERE delivered_ns < (n.second + 1) * 1000000000
      AND coalesce(acked_ns >= (n.second + 1) * 1000000000, true)) AS unacked,
    (SELECT sum(blocked_ns) / 1e9 / {publishers} FROM counters c WHERE c.second = n.second)
      AS blocked_share,
    b.messages_ready, (b.cpu_ns - before.cpu_ns) / 1e9 AS broker_cpu_cores,
    b.rss_bytes AS broker_rss_bytes
  FROM numbers n
  LEFT JOIN steps s ON n.second * 1000000000 + 500000000 >= s.start_ns
    AND n.second * 1000000000 + 500000000 < s.end_ns
  LEFT JOIN broker b ON b.second = n.second
  LEFT JOIN broker before ON before.second = n.second - 1
)
SELECT *, sum(published_per_s - delivered_per_s) OVER (ORDER BY second) AS backlog FROM counted
"""

STEPS = """
SELECT s.step, any_value(s.in_flight_limit) AS in_flight_limit,
  any_value(s.in_flight_percent) AS in_flight_percent, any_value(s.start_ns) / 1e9 AS start_s,
  any_value(s.end_ns) / 1e9 AS end_s, any_value(s.warm_ns) / 1e9 AS warm_s,
  count(*) AS measured_s, false AS warm_up_included, {rate} AS target_per_s,
  (SELECT count(*) FROM schedule x WHERE x.step = s.step) AS intended,
  (SELECT count(*) FROM schedule x WHERE x.step = s.step)
    - (SELECT count(*) FROM published p WHERE p.step = s.step) AS abandoned,
  avg(published_per_s) AS published_per_s, avg(confirmed_per_s) AS confirmed_per_s,
  avg(delivered_per_s) AS delivered_per_s,
  stddev_pop(published_per_s) / avg(published_per_s) AS published_cv,
  stddev_pop(delivered_per_s) / avg(delivered_per_s) AS delivered_cv,
  stddev_pop(p95) / avg(p95) AS latency_cv,
  arg_min(backlog, second) AS backlog_first, arg_max(backlog, second) AS backlog_last,
  max(backlog) AS backlog_max, regr_slope(backlog, second) AS backlog_slope_per_s,
  max(messages_ready) AS messages_ready_max, max(unconfirmed) AS unconfirmed_max,
  max(unacked) AS unacked_max, avg(blocked_share) AS blocked_share,
  sum(broker_cpu_cores) * 1e6
    / sum(delivered_per_s) FILTER (broker_cpu_cores IS NOT NULL) AS broker_cpu_us_per_message,
  max(broker_rss_bytes) AS broker_rss_max_bytes
FROM seconds JOIN steps s USING (step) LEFT JOIN (
  SELECT second, {p95} AS p95 FROM (
    SELECT second, list_sort(list(end_ns - intended_ns)) AS found FROM delivered GROUP BY second
  )
) USING (second)
WHERE measured GROUP BY s.step
"""

SHARES = """
SELECT s.step, count(*) AS count, avg(n) AS mean, max(n) / avg(n) AS max_over_mean,
  stddev_pop(n) / avg(n) AS cv
FROM steps s JOIN (
  SELECT step, who, coalesce(n, 0) AS n
  FROM steps CROSS JOIN range({clients}) AS clients(who)
  LEFT JOIN (
    SELECT step, {who} AS who, {what} AS n FROM {table} WHERE warm GROUP BY ALL
  ) USING (step, who)
) USING (step) GROUP BY s.step
"""

COUNTS = """
SELECT (SELECT count(*) FROM published) AS published,
  (SELECT count(confirmed_ns) FROM published) AS confirmed,
  (SELECT count(*) FROM published WHERE nacked) AS nacked,
  (SELECT count(*) FROM published WHERE {confirms} AND confirmed_ns IS NULL AND NOT nacked)
    AS unsettled,
  (SELECT count(*) FROM delivered) AS delivered,
  (SELECT count(*) FROM delivered WHERE redelivered) AS redelivered,
  (SELECT count(*) FROM (SELECT publisher, seq FROM published WHERE confirmed_ns IS NOT NULL
     OR NOT {confirms} EXCEPT SELECT publisher, seq FROM delivered)) AS lost,
  (SELECT count(*) - count(DISTINCT (publisher, seq)) FROM delivered WHERE NOT redelivered)
    AS duplicates,
  (SELECT count(*) FROM (SELECT publisher, seq FROM delivered
     EXCEPT SELECT publisher, seq FROM published)) AS "foreign"
"""


class Recomputation:
    """The figures of one run."""

    def __init__(self, run: Path, database: duckdb.DuckDBPyConnection) -> None:
        self.info = json.loads((run / "run.json").read_text(encoding="utf-8"))
        self._database = database
        self._confirms = str(self.info["confirms"]).lower()
        steps = ", ".join(
            f"({x['step']}, {x['start_ns']}, {x['end_ns']}, {x['warm_ns']},"
            f" {x['in_flight_limit'] or 'NULL'}, {x['in_flight_percent'] or 'NULL'})"
            for x in self.info["steps"]
        )
        database.execute(
            f"CREATE TABLE steps AS SELECT * FROM (VALUES {steps}) AS"
            " x(step, start_ns, end_ns, warm_ns, in_flight_limit, in_flight_percent)"
        )
        for table, end, at in (
            ("published", "confirmed_ns", "written_ns"),
            ("delivered", "delivered_ns", "delivered_ns"),
        ):
            database.execute(MESSAGES.format(run=run, table=table, end=end, at=at))
        for table in ("counters", "broker"):
            database.execute(f"CREATE VIEW {table} AS FROM read_parquet('{run}/{table}/*.parquet')")
        database.execute(self._schedule())
        publishers = self.info["publishers"]
        database.execute(SECONDS.format(confirms=self._confirms, publishers=publishers))

    def _schedule(self) -> str:
        """When each message was due: of the n publishers of a worker the i-th begins after i n-ths
        of a period."""
        queues, workers = self.info["queues"], self.info["workers"]
        period_ns = round(1e9 / self.info["rate_per_publisher"])
        of_workers = Counter(i % queues % workers for i in range(self.info["publishers"]))
        phases = ", ".join(
            f"({position * period_ns // count})"
            for count in of_workers.values()
            for position in range(count)
        )
        return (
            "CREATE TABLE schedule AS SELECT step, unnest(range(start_ns + phase, end_ns,"
            f" {period_ns})) AS at_ns FROM steps, (VALUES {phases}) AS x(phase)"
        )

    def _rows(self, query: str) -> list[Row]:
        found = self._database.execute(query)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def _latencies(self, key: str, where: str) -> dict[Any, Row]:
        """All four kinds, by `key`, over the messages for which `where` holds."""
        made: dict[Any, Row] = {}
        for kind, (table, start) in KINDS.items():
            ranks = ", ".join(f"{nearest_rank(q)} / 1e6 AS {name}" for name, q in QUANTILES.items())
            query = f"""
            SELECT key, len(found) AS messages, never, 0 AS negative, {ranks},
              found[-1] / 1e6 AS max_ms
            FROM (SELECT {key} AS key, count(*) FILTER (end_ns IS NULL) AS never,
                list_sort(list(end_ns - {start}) FILTER (end_ns IS NOT NULL)) AS found
              FROM {table} WHERE {where} GROUP BY ALL)"""
            for row in self._rows(query):
                number = row.pop("key")
                figures = {f"{kind}_{name}": value for name, value in row.items()}
                made.setdefault(number, {}).update(figures)
        return made

    def per_second(self) -> list[Row]:
        latencies = self._latencies("second", "true")
        rows = self._rows("FROM seconds ORDER BY second")
        return [row | latencies.get(row["second"], {}) for row in rows]

    def per_step(self) -> list[Row]:
        rate = self.info["publishers"] * self.info["rate_per_publisher"]
        p95 = f"{nearest_rank(0.95)}::DOUBLE"
        rows = {row["step"]: row for row in self._rows(STEPS.format(rate=rate, p95=p95))}
        latencies = self._latencies("step", "warm")
        for step, row in rows.items():
            row.update(latencies[step])
        messages, mean_ns = "count(*)", "avg(end_ns - intended_ns)"
        for name, table, who, what in (
            ("publishers", "published", "publisher", messages),
            ("queues", "delivered", "queue", messages),
            ("consumers", "delivered", "consumer", messages),
            ("queue_latency", "delivered", "queue", mean_ns),
        ):
            clients = self.info["queues" if who == "queue" else name]
            query = SHARES.format(clients=clients, who=who, what=what, table=table)
            for row in self._rows(query):
                step = row.pop("step")
                rows[step].update({f"imbalance_{name}_{key}": x for key, x in row.items()})
        return [rows[step] for step in sorted(rows)]

    def queue_distribution(self) -> list[Row]:
        """At fewer points: each time the rest above has shrunk to 10 ** -0.25."""
        return self._rows(
            """
            WITH sorted AS (SELECT step, queue, list_sort(list(end_ns - intended_ns)) AS found
                FROM delivered WHERE warm GROUP BY ALL),
            points AS (SELECT 10 ** (unnest(range(50)) / 4) AS rarity)
            SELECT step, queue, 1 - 1 / rarity AS share,
              found[greatest(ceil((1 - 1 / rarity) * len(found)), 1)::INTEGER] / 1e6 AS latency_ms
            FROM sorted, points WHERE rarity < len(found)
            UNION ALL SELECT step, queue, 1.0, found[-1] / 1e6 FROM sorted
            ORDER BY step, queue, share"""
        )

    def distribution(self) -> list[Row]:
        """Eight points for each tenth of the rest above them, as long as there are messages in it,
        and the largest."""
        made: list[Row] = []
        for step in [*sorted(x["step"] for x in self.info["steps"]), None]:
            mine = "warm" if step is None else f"warm AND step = {step}"
            for kind, (table, start) in sorted(KINDS.items()):
                query = f"""
                WITH sorted AS (SELECT list_sort(list(end_ns - {start})) AS found FROM {table}
                    WHERE {mine} AND end_ns IS NOT NULL),
                points AS (SELECT 10 ** (unnest(range(100)) / 8) AS rarity)
                SELECT 1 - 1 / rarity AS share,
                  found[greatest(ceil((1 - 1 / rarity) * len(found)), 1)::INTEGER] / 1e6
                    AS latency_ms
                FROM sorted, points WHERE rarity < len(found)
                UNION ALL SELECT 1.0, found[-1] / 1e6 FROM sorted WHERE len(found) > 0
                ORDER BY 1"""
                made += [{"step": step, "kind": kind} | row for row in self._rows(query)]
        return made

    def latency_heat(self) -> list[Row]:
        """The messages of each second by their latency: four cells for each power of two."""
        return self._rows(
            """
            WITH found AS (SELECT second, end_ns - intended_ns AS ns FROM delivered),
            octaves AS (SELECT second, ns, 2 ** floor(log2(ns)) AS octave FROM found),
            cells AS (
              SELECT second, octave, floor((ns - octave) * 4 / octave) AS quarter FROM octaves
            )
            SELECT second, octave * (1 + quarter / 4) / 1e6 AS from_ms,
              octave * (1 + (quarter + 1) / 4) / 1e6 AS to_ms, count(*) AS messages
            FROM cells GROUP BY ALL ORDER BY second, from_ms"""
        )

    def per_queue(self) -> list[Row]:
        return self._rows(
            "SELECT step, queue, count(*) AS messages, avg(end_ns - intended_ns) / 1e6 AS mean_ms"
            " FROM delivered WHERE warm GROUP BY ALL ORDER BY step, queue"
        )

    def per_run(self) -> list[Row]:
        (counts,) = self._rows(COUNTS.format(confirms=self._confirms))
        return [counts | self._latencies("0", "warm")[0]]


def nearest_rank(quantile: float) -> str:
    """The smallest value of the sorted list `found` with at least that share of them up to it."""
    return f"found[ceil({quantile} * len(found))::INTEGER]"


def main(run: Path) -> None:
    """Print the figures of the run in this directory as JSON, by table."""
    with duckdb.connect(config={"threads": 1}) as database:
        again = Recomputation(run, database)
        tables = {
            "per_second": again.per_second(),
            "per_step": again.per_step(),
            "per_run": again.per_run(),
            "distribution": again.distribution(),
            "latency_heat": again.latency_heat(),
            "per_queue": again.per_queue(),
            "queue_distribution": again.queue_distribution(),
        }
        print(json.dumps(tables, default=float))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
