"""The topic exchange: patterns of words, `*` for exactly one word, `#` for any number of them.

The patterns form a trie, one word an edge:

    stock.*.nyse      root --stock--> o --*--> o --nyse--> o {1}
    stock.#                            `--#--> o {2}

A key walks it with all the nodes its words so far can have led to. No node is visited twice for
one word, so the work is bounded by words times nodes; and as what a run of wildcards matches does
not depend on their order, `#.*.#` stands in the trie as `*.#`, and no run has a second `#`.
"""

from __future__ import annotations

from typing import Final

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.exchange import Exchange, Targets, distinct

ONE: Final = "*"
ANY: Final = "#"


class Node:
    """A place in the trie; `absorbs` when a `#` leads here: it takes any number of words more."""

    __slots__ = ("absorbs", "any", "children", "one", "targets")

    def __init__(self, absorbs: bool) -> None:
        self.absorbs = absorbs
        self.children: dict[str, Node] = {}
        self.one: Node | None = None
        self.any: Node | None = None
        self.targets: Targets = {}

    @property
    def is_bare(self) -> bool:
        """Nothing ends here, and nothing goes on."""
        return not (self.targets or self.children or self.one or self.any)

    def following(self, word: str) -> Node | None:
        """Where `word` of a pattern leads."""
        if word == ONE:
            return self.one
        return self.any if word == ANY else self.children.get(word)

    def extend(self, word: str) -> Node:
        """Where `word` of a pattern leads, for the first time perhaps."""
        node = self.following(word)
        if node is None:
            node = Node(absorbs=word == ANY)
            if word == ONE:
                self.one = node
            elif word == ANY:
                self.any = node
            else:
                self.children[word] = node
        return node

    def cut(self, word: str) -> None:
        """Nothing is left where `word` of a pattern leads."""
        if word == ONE:
            self.one = None
        elif word == ANY:
            self.any = None
        else:
            del self.children[word]


class TopicExchange(Exchange):
    """Matches by walking a trie of patterns."""

    __slots__ = ("root",)

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.root = Node(absorbs=False)

    def match(self, key: str) -> list[Destination]:
        ends = [node.targets for node in reached(self.root, split(key)) if node.targets]
        if not ends:
            return []
        if len(ends) == 1:
            return distinct(ends[0])
        found: Targets = {}
        for targets in ends:
            found.update(targets)
        return distinct(dict(sorted(found.items())))

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        node = self.root
        for word in simplified(binding.routing_key):
            node = node.extend(word)
        node.targets[number] = binding.target

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        words = simplified(binding.routing_key)
        path = [self.root]
        for word in words:
            path.append(path[-1].extend(word))
        del path[-1].targets[number]
        while words and path[-1].is_bare:
            path.pop()
            path[-1].cut(words.pop())


def split(key: str) -> list[str]:
    """The words of a key; words may be empty, and the empty key has none."""
    return key.split(".") if key else []


def simplified(pattern: str) -> list[str]:
    """The words of a pattern that matches the same; in a run of wildcards `#` is last, and once."""
    words: list[str] = []
    pending = False
    for word in split(pattern):
        if word == ANY:
            pending = True
            continue
        if pending and word != ONE:
            words.append(ANY)
            pending = False
        words.append(word)
    if pending:
        words.append(ANY)
    return words


def reached(root: Node, words: list[str]) -> list[Node]:
    """The nodes where `words` can end, each once."""
    nodes = [root] if root.any is None else [root, root.any]
    for word in words:
        following: list[Node] = []
        add = following.append
        absorbing = False
        for node in nodes:
            if node.absorbs:
                add(node)
                absorbing = True
            child = node.children.get(word)
            if child is not None:
                add(child)
                if child.any is not None:
                    add(child.any)
            child = node.one
            if child is not None:
                add(child)
                if child.any is not None:
                    add(child.any)
        if not following:
            return following
        nodes = list(dict.fromkeys(following)) if absorbing else following
    return nodes
