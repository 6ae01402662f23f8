"""From raw Parquet to a report, in this order.

    ingest -> cube -> percentiles -> tables -> classify -> knee -> claims -> plots, report, console
    (raw rows: Spark) (histograms: Arrow)  (a row a second or a step: plain Python)

Raw rows are scanned once and never leave Spark. What comes back to the driver is the cube: some
hundreds of rows a second, however many messages there were. `build.build_report` is the way in.
"""
