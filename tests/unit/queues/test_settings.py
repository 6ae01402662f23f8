"""Goal: of what arguments and a policy say about deliveries, the stricter holds; a negative limit
is none."""

from __future__ import annotations

import pytest

from sluicemq.queues.settings import settings_of


@pytest.mark.parametrize(
    ("argument", "policy", "limit"),
    [
        (None, None, None),
        (3, None, 3),
        (None, 3, 3),
        (3, 5, 3),
        (5, 3, 3),
        (0, 3, 0),
        (-1, None, None),
        (-1, 3, 3),
        (-7, None, None),
    ],
)
def test_the_delivery_limit(argument: int | None, policy: int | None, limit: int | None) -> None:
    arguments = {} if argument is None else {"x-delivery-limit": argument}
    definition = {} if policy is None else {"delivery-limit": policy}
    assert settings_of(arguments, definition).delivery_limit == limit
