"""Spark: the data source `amqp`, and the pipeline that analyses the lab's measurements."""
