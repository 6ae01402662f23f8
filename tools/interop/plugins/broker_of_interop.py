"""A pytest plugin for suites that would start RabbitMQ in a container: it hands them a broker that
runs already, at the port INTEROP_PORT."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from yarl import URL

PORT = int(os.environ["INTEROP_PORT"])
NO_TLS = 1  # nobody listens there

with suppress(ImportError):
    from tests import docker_client

    docker_client.check_docker_available = lambda: docker_client.DockerHostInfo(is_tcp=True)
    docker_client.DockerClient.run = lambda *_, **__: container()
    docker_client.DockerClient.kill = docker_client.DockerClient.remove = lambda *_: None


def container() -> object:
    """As if it had been started for us."""
    ports = {"5672/tcp": PORT, "5671/tcp": NO_TLS}
    return docker_client.ContainerInfo(id="", ports=ports, host="127.0.0.1")


@pytest.fixture(scope="session")
def rabbitmq_container() -> object:
    return container()


@pytest.fixture(scope="session")
def amqp_direct_url() -> URL:
    return URL(f"amqp://guest:guest@127.0.0.1:{PORT}//")
