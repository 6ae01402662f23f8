"""From raw Parquet to a report, in this order.

    ingest -> cube -> percentiles -> tables -> classify -> knee -> claims -> plots, report, console
    (raw rows: Spark)  (small rows: Spark)    (a row a second or a step: plain Python)

Raw rows are scanned once and never leave Spark. What comes back to the driver has a row a second,
a step, a queue or a worker. `build.build_report` is the way in.
"""
