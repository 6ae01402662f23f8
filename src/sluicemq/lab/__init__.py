"""The stress lab: five scenarios, an open-loop load client for any AMQP 0-9-1 broker, raw data."""
