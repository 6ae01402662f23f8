"""From raw Parquet to a report, in this order.

    ingest -> latency_histograms ->  percentiles -> tables -> classify -> knee -> claims -> report
    (raw rows: Spark)   (Arrow)      (a row a second or a step: plain Python)         plots, console

Raw rows are scanned once and never leave Spark. The driver gets histograms: some hundreds of rows a
second, however many messages there were. `build.build_report` is the entry point.
"""
