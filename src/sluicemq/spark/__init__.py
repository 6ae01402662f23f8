"""Spark: the data source `amqp`, and the pipeline that turns the lab's raw measurements into
answers."""
