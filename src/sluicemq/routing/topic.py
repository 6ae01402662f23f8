"""The topic exchange: patterns of words, `*` for exactly one word, `#` for any number of them.

The patterns form a trie, one word an edge:

    stock.*.nyse      root --stock--> o --*--> o --nyse--> o {1}
    stock.#                            `--#--> o {2}

The walk keeps all nodes to which the words of a key so far can lead. No node is visited twice for
one word, so the work is bounded by words times nodes, and where large sets of nodes lead is cached.
Words that are in no pattern are all alike: so most keys that come for the first time (for a part of
them is a number or a name) have the answer of an earlier one, and are not walked.
What a run of wildcards matches does not depend on their order: `#.*.#` is stored as `*.#`, and no
run has a second `#`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.exchange import Exchange, Targets, distinct

ONE: Final = "*"
ANY: Final = "#"

CROWD_NODES: Final = 16
"""With so many nodes it is cheaper to remember where they lead than to ask each."""

CROWDS_NODES_MAX: Final = 100_000
"""So many nodes are remembered in all of an exchange's crowds, a megabyte; then it starts anew."""

ANSWERS_WORDS_MAX: Final = 100_000
"""So many words of keys, and destinations, are remembered with the answers of an exchange, a few
megabytes; then it starts anew."""


class TrieNode:
    """A place in the trie of patterns. If it `absorbs`, it was reached by a `#` and takes any
    number of further words."""

    __slots__ = ("absorbs", "any", "children", "one", "targets")

    def __init__(self, absorbs: bool) -> None:
        self.absorbs = absorbs
        self.children: dict[str, TrieNode] = {}
        self.one: TrieNode | None = None
        self.any: TrieNode | None = None
        self.targets: Targets = {}

    @property
    def is_bare(self) -> bool:
        """Tell whether no pattern ends here or goes on."""
        return not (self.targets or self.children or self.one or self.any)

    def following(self, word: str) -> TrieNode | None:
        """Return the place where `word` of a pattern leads; None when there is none."""
        if word == ONE:
            return self.one
        return self.any if word == ANY else self.children.get(word)

    def extend(self, word: str) -> TrieNode:
        """Return the place where `word` of a pattern leads, after making it if it is missing."""
        node = self.following(word)
        if node is None:
            node = TrieNode(absorbs=word == ANY)
            if word == ONE:
                self.one = node
            elif word == ANY:
                self.any = node
            else:
                self.children[word] = node
        return node

    def cut(self, word: str) -> None:
        """Remove the place where `word` of a pattern leads, because nothing is left there."""
        if word == ONE:
            self.one = None
        elif word == ANY:
            self.any = None
        else:
            del self.children[word]


class TopicExchange(Exchange):
    """The exchange type topic: it matches by walking a trie of patterns."""

    __slots__ = ("crowds", "root")
    goes_by_key: ClassVar[bool] = True

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.root = TrieNode(absorbs=False)
        self.crowds = Crowds()

    def match(self, key: str) -> list[Destination]:
        words = split(key)
        crowds = self.crowds
        in_patterns = crowds.words
        alike = tuple([word if word in in_patterns else None for word in words])
        found = crowds.answers.get(alike)
        if found is None:
            found = self.walk(words)
            crowds.answered(alike, found)
        return found

    def walk(self, words: list[str]) -> list[Destination]:
        """Return the destinations of the key with these words, in order of binding, none twice."""
        ends = [node.targets for node in reached(self.root, words, self.crowds) if node.targets]
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
        words = simplified(binding.routing_key)
        for word in words:
            node = node.extend(word)
        node.targets[number] = binding.target
        self.crowds.add(words)

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        words = simplified(binding.routing_key)
        self.crowds.drop(words)
        path = [self.root]
        for word in words:
            path.append(path[-1].extend(word))
        del path[-1].targets[number]
        while words and path[-1].is_bare:
            path.pop()
            path[-1].cut(words.pop())


def split(key: str) -> list[str]:
    """Return the words of a key; words may be empty, and the empty key has none."""
    return key.split(".") if key else []


def simplified(pattern: str) -> list[str]:
    """Return the words of an equivalent pattern in which each run of wildcards has at most one `#`,
    at its end."""
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


def step(nodes: Sequence[TrieNode], word: str) -> list[TrieNode]:
    """Return the places where `word` of a key leads from all of these, each once."""
    following: list[TrieNode] = []
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
    return list(dict.fromkeys(following)) if absorbing else following


class Crowd:
    """Many places of the trie at once, and where they lead by the words of patterns; None stands
    for all words that are in no pattern."""

    __slots__ = ("following", "nodes")

    def __init__(self, nodes: tuple[TrieNode, ...]) -> None:
        self.nodes = nodes
        self.following: dict[str | None, Crowd] = {}


class Crowds:
    """A cache of the crowds that keys have led to: with patterns like `#.a.#.b.#` a key of a
    hundred words visits hundreds of places a word, and most keys visit the same ones. It also has
    the answers that were found, by the words of the key; None stands for words in no pattern."""

    __slots__ = ("answers", "answers_size", "known", "size", "words")

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        """The words of all patterns, and how often each occurs."""
        self.known: dict[tuple[TrieNode, ...], Crowd] = {}
        self.size = 0
        self.answers: dict[tuple[str | None, ...], list[Destination]] = {}
        self.answers_size = 0

    def add(self, pattern: list[str]) -> None:
        """Note that the trie has one more pattern, with these words."""
        self.words.update(pattern)
        self.forget()

    def drop(self, pattern: list[str]) -> None:
        """Note that the trie has lost a pattern with these words, and clear the cache."""
        for word in pattern:
            self.words[word] -= 1
            if not self.words[word]:
                del self.words[word]
        self.forget()

    def forget(self) -> None:
        """Clear the cache, because the trie has changed."""
        self.known.clear()
        self.size = 0
        self.answers.clear()
        self.answers_size = 0

    def answered(self, words: tuple[str | None, ...], found: list[Destination]) -> None:
        """Remember the destinations of all keys with these words."""
        self.answers_size += len(words) + len(found) + 1
        if self.answers_size > ANSWERS_WORDS_MAX:
            self.answers.clear()
            self.answers_size = 0
        else:
            self.answers[words] = found

    def lead(self, crowd: Crowd | None, word: str | None, nodes: list[TrieNode]) -> Crowd:
        """Remember these nodes as the crowd to which `word` leads from `crowd`, and return it."""
        if self.size > CROWDS_NODES_MAX:
            self.known.clear()
            self.size = 0
        key = tuple(nodes)
        reached = self.known.get(key)
        if reached is None:
            reached = self.known[key] = Crowd(key)
            self.size += len(key)
        if crowd is not None:
            crowd.following[word] = reached
            self.size += 1
        return reached


def reached(root: TrieNode, words: list[str], crowds: Crowds) -> Sequence[TrieNode]:
    """Return the nodes where `words` can end, each once."""
    nodes: Sequence[TrieNode] = [root] if root.any is None else [root, root.any]
    crowd: Crowd | None = None
    known: str | None = None
    for word in words:
        if crowd is not None:
            known = word if word in crowds.words else None
            following = crowd.following.get(known)
            if following is not None:
                crowd = following
                continue
            nodes = crowd.nodes
        found = step(nodes, word)
        if not found:
            return found
        if crowd is not None or len(found) > CROWD_NODES:
            crowd = crowds.lead(crowd, known, found)
        nodes = found
    return nodes if crowd is None else crowd.nodes
