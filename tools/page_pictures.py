"""Take the pictures of the page that docs/images has.

    PYTHONPATH=src:tests .venv/bin/python tools/page_pictures.py

A broker with little memory, publishers that send as fast as they can and consumers that are slow,
so that queues page and somebody is held up. Needs Debian's chromium and chromedriver.
"""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pika
from pika.exceptions import AMQPError

from support.browser import Browser, browsing
from support.management import Managed, managed
from support.waiting import await_truth

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
QUEUES: Final = {"orders": 500, "invoices": 5000, "mails": 20_000}
"""Their names, and the bytes of each message."""

PAGED: Final = 1000
MEMORY: Final = "memory.vm_memory_high_watermark_absolute=150MiB"


def connected(port: int) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))


def publish(port: int, queue: str, bytes_each: int) -> None:
    """Send persistent messages as fast as the broker takes them, until it is gone."""
    body, persistent = b"x" * bytes_each, pika.BasicProperties(delivery_mode=2)
    with suppress(AMQPError):
        channel = connected(port).channel()
        while True:
            channel.basic_publish("", queue, body, persistent)


def consume(port: int, queue: str) -> None:
    """Take a hundred messages a second, until the broker is gone."""
    with suppress(AMQPError):
        channel = connected(port).channel()
        channel.basic_qos(prefetch_count=50)
        for method, _, _ in channel.consume(queue):
            channel.basic_ack(method.delivery_tag)
            time.sleep(0.01)


def picture(browser: Browser, name: str, width: int, height: int, text: str) -> None:
    """Keep what is seen at this size when it shows this text."""
    browser.resize(width, height)
    time.sleep(3)  # charts and tanks move
    browser.await_text(text)
    browser.driver.save_screenshot(str(IMAGES / f"{name}.png"))


def on_disk(own: Managed) -> int:
    """How many messages of the first queue are on disk only."""
    return int(own.get("queues/%2F/orders")["backing_queue_status"]["delta"][2])


def main() -> None:
    """Load a broker, look at it, keep two pictures."""
    with tempfile.TemporaryDirectory() as directory, managed(Path(directory), MEMORY) as own:
        port = own.target.port
        channel = connected(port).channel()
        for queue, bytes_each in QUEUES.items():
            channel.queue_declare(queue, durable=True)
            for work, given in ((publish, (port, queue, bytes_each)), (consume, (port, queue))):
                threading.Thread(target=work, args=given, daemon=True).start()
        with browsing(own.url) as browser:
            browser.log_in()
            browser.go("queue", "/", "orders")
            await_truth(lambda: on_disk(own) > PAGED)
            picture(browser, "page-queue", 400, 1000, "▲")
            browser.go("chain")
            picture(browser, "page-chain", 1280, 900, " s now.")


if __name__ == "__main__":
    main()
