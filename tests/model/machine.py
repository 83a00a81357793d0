"""The state machine: random steps against a server, each answer compared with the model's.

Names come from small sets and are used whether they exist or not, so that refusals are tried as
much as successes. A run leaves the server empty.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, Final

from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.model.site import Site
from tests.model.world import (
    Container,
    Database,
    Document,
    Item,
    Key,
    Patch,
    Step,
    World,
    is_number,
)
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply

UNIQUE: Final = {"uniqueKeys": [{"paths": ["/n"]}]}
ABSENT: Final = object()

Place = tuple[str, str]  # a database and a container
# Most steps go where there is something; some find nothing.
places = st.sampled_from((("d0", "c0"),) * 6 + (("d0", "c1"), ("d1", "c0")))
keys = st.builds(Key, st.sampled_from(("p", "q")), st.sampled_from(("a", "b", "c", "d")))
defaults = st.sampled_from((None, -1, 2, 2, 5, 30))
lifetimes = st.sampled_from((*(ABSENT,) * 6, -1, 1, 2, 2, 5, 20, 2147483647, 0, "soon", None))
numbers = st.integers(-3, 12)
# Without what PostgreSQL cannot hold; that has tests of its own.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
etags = st.sampled_from((None, None, None, "current", '"stale"'))
pages = st.sampled_from((None, 1, 2, 3, 100))
seconds = st.sampled_from((0.25, 0.5, 1, 1, 2, 3, 5, 9.75, 30, 1000))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """What an item holds besides its id and key."""
    document: Document = {"n": draw(numbers), "s": draw(texts)}
    ttl = draw(lifetimes)
    return document if ttl is ABSENT else document | {"ttl": ttl}


def patch_operations() -> st.SearchStrategy[Document]:
    """Of a number that is always there, one that may be, the lifetime, and of what is no number."""

    def of(name: str, paths: Sequence[str], values: st.SearchStrategy[Any]) -> Any:
        parts = {"op": st.just(name), "path": st.sampled_from(paths), "value": values}
        return st.fixed_dictionaries(parts)

    ttls = lifetimes.filter(lambda ttl: ttl is not ABSENT)
    return st.one_of(
        of("set", ("/n", "/x"), numbers),
        of("incr", ("/n", "/n", "/x", "/ttl", "/ttl", "/s"), numbers),
        of("set", ("/ttl",), ttls),
        of("add", ("/ttl",), ttls),
        st.builds(lambda path: {"op": "remove", "path": path}, st.sampled_from(("/ttl", "/x"))),
    )


patches = st.builds(
    Patch,
    st.lists(patch_operations(), min_size=1, max_size=3),
    st.sampled_from((None, None, None, 0, 4, 9)),
)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One operation of a batch. A replace gives the item another id now and then."""
    how = draw(st.sampled_from(("create", "upsert", "replace", "patch", "patch", "read", "delete")))
    key, rest = draw(keys), draw(documents())
    target = draw(keys) if how == "replace" and rest["n"] > 9 else key
    etag = None if how in ("create", "read") else draw(etags)
    return Step(how, key, document(target, rest), draw(patches), etag)


class Machine(RuleBasedStateMachine):
    """One run. The databases of each run have names of their own."""

    site: ClassVar[Site]
    _runs: ClassVar = count(1)

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.prefix = f"run{next(self._runs)}-"
        self.touched: tuple[str, str] = ("d0", "c0")

    @property
    def raw(self) -> RawClient:
        return self.site.raw

    @property
    def now(self) -> float:
        return self.site.clock.now()

    def path(self, database: str, container: str) -> str:
        self.touched = (database, container)
        return f"/dbs/{self.prefix}{database}/colls/{container}"

    # Databases and containers

    # A rule stands for several steps, chosen by a word: a run leaves out some rules at random, and
    # one that could not write would learn nothing.

    @initialize(
        default_ttl=defaults, is_unique=st.booleans(), stock=st.dictionaries(keys, documents())
    )
    def furnish(self, default_ttl: int | None, is_unique: bool, stock: dict[Key, Document]) -> None:
        self.create_database("d0")
        self.create_container("d0", "c0", default_ttl, is_unique)
        for key, rest in stock.items():
            self.create_item("d0", "c0", key, rest)

    @rule(
        how=st.sampled_from(("create", "upsert", "replace", "patch", "patch", "delete")),
        place=places,
        key=keys,
        to=keys,
        rest=documents(),
        patch=patches,
        etag=etags,
    )
    def write(
        self,
        *,
        how: str,
        place: Place,
        key: Key,
        to: Key,
        rest: Document,
        patch: Patch,
        etag: str | None,
    ) -> None:
        match how:
            case "create":
                self.create_item(*place, key, rest)
            case "upsert":
                self.upsert_item(*place, key, rest, etag)
            case "replace":
                self.replace_item(*place, key, rest, etag, to)
            case "patch":
                target = key if rest["n"] > 9 else self._present(*place, key)
                self.patch_item(*place, target, patch, etag)
            case _:
                self.delete_item(*place, key, etag)

    @rule(
        how=st.sampled_from(("batch", "batch", "batch", "batch", "clear")),
        place=places,
        pk=st.sampled_from(("p", "q")),
        several=st.lists(steps(), min_size=1, max_size=8),
        is_feasible=st.booleans(),
    )
    def write_several(
        self, *, how: str, place: Place, pk: str, several: list[Step], is_feasible: bool
    ) -> None:
        if how == "batch":
            self.run_batch(*place, pk, several, is_feasible)
        else:
            self.clear_partition(*place, pk)

    @rule(place=places, key=keys, rest=documents())
    def put(self, place: Place, key: Key, rest: Document) -> None:
        self.upsert_item(*place, key, rest, None)

    @rule(
        how=st.sampled_from(("read", "read", "feed", "query", "changes")),
        place=places,
        key=keys,
        is_known=st.booleans(),
        pk=st.sampled_from((None, None, "p", "q")),
        page=pages,
        least=numbers,
        direction=st.sampled_from(("ASC", "DESC")),
    )
    def look(
        self,
        *,
        how: str,
        place: Place,
        key: Key,
        is_known: bool,
        pk: str | None,
        page: int | None,
        least: int,
        direction: str,
    ) -> None:
        match how:
            case "read":
                self.read_item(*place, key, is_known)
            case "feed":
                self.read_feed(*place, pk, page)
            case "changes":
                self.read_changes(*place, is_known)
            case _:
                self.query_items(*place, least=least, page=page, pk=pk, direction=direction)

    @rule(place=places, default_ttl=defaults)
    def set_default(self, place: Place, default_ttl: int | None) -> None:
        self.change_default(*place, default_ttl)

    @rule(
        to_an_end=st.booleans(),
        step=seconds,
        which=st.integers(0, 3),
        before=st.sampled_from((0, 0, 0, 0.5, 1)),
    )
    def move(self, *, to_an_end: bool, step: float, which: int, before: float) -> None:
        if to_an_end:
            self.move_clock_to_an_end(which, before)
        else:
            self.move_clock(step)

    @rule(
        what=st.sampled_from(("create", "create", "drop", "drop all", "list", "drain", "restart")),
        default_ttl=defaults,
        is_unique=st.booleans(),
    )
    def administer(self, what: str, default_ttl: int | None, is_unique: bool) -> None:
        match what:
            case "create":
                self.create_database("d1")
                self.create_container("d0", "c1", default_ttl, is_unique)
                self.create_container("d1", "c0", default_ttl, is_unique)
            case "drop":
                self.delete_container("d0", "c1")
            case "drop all":
                self.delete_database("d1")
            case "list":
                self.list_everything()
            case "drain":
                self.drain()
            case _:
                self.site.restart()

    def create_database(self, name: str) -> None:
        reply = self.raw.post("/dbs", {"id": self.prefix + name})
        expect(reply, 409 if name in self.world.databases else 201)
        self.world.databases.setdefault(name, Database())

    def delete_database(self, name: str) -> None:
        reply = self.raw.delete(f"/dbs/{self.prefix}{name}")
        expect(reply, 204 if self.world.databases.pop(name, None) else 404)

    def create_container(
        self, database: str, name: str, default_ttl: int | None, is_unique: bool
    ) -> None:
        body: Document = {"id": name, "partitionKey": PARTITION_KEY}
        if default_ttl is not None:
            body["defaultTtl"] = default_ttl
        if is_unique:
            body["uniqueKeyPolicy"] = UNIQUE
        reply = self.raw.post(f"/dbs/{self.prefix}{database}/colls", body)
        owner = self.world.databases.get(database)
        if owner is None:
            expect(reply, 404, 1003)
        elif name in owner.containers:
            expect(reply, 409)
        else:
            expect(reply, 201)
            owner.containers[name] = Container(default_ttl, is_unique)

    def delete_container(self, database: str, name: str) -> None:
        reply = self.raw.delete(self.path(database, name))
        owner = self.world.databases.get(database)
        if owner is None:
            expect(reply, 404, 1003)
        else:
            expect(reply, 204 if owner.containers.pop(name, None) else 404)

    def list_everything(self) -> None:
        found = {each["id"] for each in self.raw.get("/dbs").json["Databases"]}
        mine = {name for name in found if name.startswith(self.prefix)}
        assert mine == {self.prefix + name for name in self.world.databases}
        for name, database in self.world.databases.items():
            listed = self.raw.get(f"/dbs/{self.prefix}{name}/colls").json["DocumentCollections"]
            shown = {each["id"]: each.get("defaultTtl") for each in listed}
            assert shown == {
                each: container.default_ttl for each, container in database.containers.items()
            }

    def change_default(self, database: str, name: str, default_ttl: int | None) -> None:
        container = self.world.find(database, name)
        if container is None:
            return
        path = self.path(database, name)
        body = {k: v for k, v in self.raw.get(path).json.items() if not k.startswith("_")}
        body.pop("defaultTtl", None)
        if default_ttl is not None:
            body["defaultTtl"] = default_ttl
        expect(self.raw.put(path, body), 200)
        container.change(default_ttl, self.now)

    # Items

    def create_item(self, database: str, name: str, key: Key, rest: Document) -> None:
        body = document(key, rest)
        reply = self.raw.post(f"{self.path(database, name)}/docs", body, pk=header(key))
        container = self._container(database, name, reply)
        if container is not None:
            self._written(container, key, body, reply, container.create(key, body))

    def upsert_item(
        self, database: str, name: str, key: Key, rest: Document, etag: str | None
    ) -> None:
        body = document(key, rest)
        sent, headers = self._condition(database, name, key, etag)
        path = f"{self.path(database, name)}/docs"
        reply = self.raw.post(path, body, pk=header(key), upsert="true", **headers)
        container = self._container(database, name, reply)
        if container is not None:
            self._written(container, key, body, reply, container.upsert(key, body, sent))

    def replace_item(
        self, database: str, name: str, key: Key, rest: Document, etag: str | None, to: Key
    ) -> None:
        """Now and then the item gets another id."""
        target = Key(key.pk, to.id) if rest["n"] > 9 else key
        body = document(target, rest)
        sent, headers = self._condition(database, name, key, etag)
        path = f"{self.path(database, name)}/docs/{key.id}"
        reply = self.raw.put(path, body, pk=header(key), **headers)
        container = self._container(database, name, reply)
        if container is not None:
            self._written(container, key, body, reply, container.replace(key, body, sent))

    def delete_item(self, database: str, name: str, key: Key, etag: str | None) -> None:
        sent, headers = self._condition(database, name, key, etag)
        path = f"{self.path(database, name)}/docs/{key.id}"
        reply = self.raw.delete(path, pk=header(key), **headers)
        container = self._container(database, name, reply)
        if container is not None:
            expect(reply, container.delete(key, sent))
            if reply.status == 204:
                del container.items[key]

    def patch_item(
        self, database: str, name: str, key: Key, patch: Patch, etag: str | None
    ) -> None:
        sent, headers = self._condition(database, name, key, etag)
        path = f"{self.path(database, name)}/docs/{key.id}"
        reply = self.raw.patch(path, patch_body(patch), pk=header(key), **headers)
        container = self._container(database, name, reply)
        if container is not None:
            step = Step("patch", key, {}, patch, sent)
            made = reply.json["_etag"] if reply.status == 200 else ""
            outcome = container.follow(step, self.now, made)
            expect(reply, outcome.status)
            self.site.met[f"patch {reply.status}"] += 1
            if outcome.item is not None:
                same(reply.json, outcome.item)

    # Several items

    def run_batch(
        self, database: str, name: str, pk: str, several: Sequence[Step], is_feasible: bool
    ) -> None:
        """Many batches fail by themselves; a feasible one is left with the steps that do not."""
        container = self.world.find(database, name)
        several = [
            replace(step, key=key, body=step.body | {"pk": pk}, etag=sent)
            for step in several
            for key in [Key(pk, step.key.id)]
            for sent, _ in [self._condition(database, name, key, step.etag)]
        ]
        if is_feasible and container is not None:
            several = container.feasible(several, self.now)
        if not several:
            return
        operations = [operation(step) for step in several]
        reply = self.raw.batch(self.path(database, name), operations, pk=json.dumps([pk]))
        if self._container(database, name, reply) is None or container is None:
            return
        found = reply.json
        outcomes = container.batch(several, self.now, [each.get("eTag", "") for each in found])
        codes, expected = [each["statusCode"] for each in found], [each[0] for each in outcomes]
        assert codes == expected, (codes, expected, operations)
        expect(reply, 207 if 424 in expected or expected[0] >= 400 else 200)
        self.site.met[f"batch {reply.status}"] += 1
        for each, outcome in zip(found, outcomes, strict=True):
            assert ("resourceBody" in each) == (outcome.item is not None), each
            if outcome.item is not None:
                same(each["resourceBody"], outcome.item)

    def clear_partition(self, database: str, name: str, pk: str) -> None:
        reply = self.raw.clear_partition(self.path(database, name), json.dumps([pk]))
        container = self._container(database, name, reply)
        if container is not None:
            expect(reply, 200)
            if any(key.pk == pk for key in container.items):
                self.site.met["clear 200"] += 1
            container.clear(pk)

    # Looking

    def read_item(self, database: str, name: str, key: Key, is_known: bool) -> None:
        path = f"{self.path(database, name)}/docs/{key.id}"
        container = self.world.find(database, name)
        item = None if container is None else container.items.get(key)
        headers = {"if_none_match": item.etag} if is_known and item is not None else {}
        reply = self.raw.get(path, pk=header(key), **headers)
        if self._container(database, name, reply) is None:
            return
        if item is None:
            expect(reply, 404)
        elif is_known:
            expect(reply, 304)
        else:
            expect(reply, 200)
            same(reply.json, item)

    # Lists and queries

    def read_changes(self, database: str, name: str, is_onward: bool) -> None:
        """The latest version of each item that was written since the last look."""
        container = self.world.find(database, name)
        if container is None:
            return
        etag, version = container.reader if is_onward else (None, 0)
        headers = {"A-IM": "Incremental Feed", "x-ms-max-item-count": "3"}
        found: list[Document] = []
        while True:
            sent = headers if etag is None else headers | {"If-None-Match": etag}
            reply = self.raw.request("GET", f"{self.path(database, name)}/docs", headers=sent)
            etag = reply.headers["etag"]
            if reply.status == 304:
                break
            expect(reply, 200)
            found += reply.json["Documents"]
        container.reader = etag, container.written
        lsns = [each["_lsn"] for each in found]
        assert lsns == sorted(lsns)
        changed = {key: item for key, item in container.items.items() if item.version > version}
        assert len(found) == len(changed)
        for each in found:
            same(each, changed[Key(each["pk"], each["id"])])

    def read_feed(self, database: str, name: str, pk: str | None, page: int | None) -> None:
        path = f"{self.path(database, name)}/docs"
        container = self.world.find(database, name)
        if container is None:
            expect(self.raw.get(path), 404, 1003)
            return
        found = self._pages(lambda **headers: self.raw.get(path, **headers), pk, page)
        all_same(found, container.listed(pk))

    def query_items(
        self,
        database: str,
        name: str,
        *,
        least: int,
        page: int | None,
        pk: str | None,
        direction: str,
    ) -> None:
        container = self.world.find(database, name)
        if container is None:
            return
        path = f"{self.path(database, name)}/docs"
        bodies = [item.body for item in container.listed(pk)]
        chosen = [body for body in bodies if body["n"] >= least]

        def ask(text: str) -> list[Any]:
            at = [{"name": "@least", "value": least}]
            return self._pages(
                lambda **headers: self.raw.query(path, text, at, **headers), pk, page
            )

        where = "FROM c WHERE c.n >= @least"
        assert ask(f"SELECT VALUE c.id {where}") == [body["id"] for body in chosen]
        assert ask(f"SELECT VALUE COUNT(1) {where}") == [len(chosen)]
        assert ask(f"SELECT VALUE SUM(c.n) {where}") == [sum(body["n"] for body in chosen)]
        in_order = sorted((body["n"] for body in chosen), reverse=direction == "DESC")
        assert ask(f"SELECT VALUE c.n {where} ORDER BY c.n {direction}") == in_order
        assert sorted(ask(f"SELECT DISTINCT VALUE c.s {where}")) == sorted(
            {body["s"] for body in chosen}
        )
        dated = sum(is_number(body.get("ttl")) for body in chosen)
        assert ask(f"SELECT VALUE COUNT(1) {where} AND IS_NUMBER(c.ttl)") == [dated]

    # Time and the server

    def move_clock(self, step: float) -> None:
        self.site.clock.advance(step)
        self.world.purge(self.now)

    def move_clock_to_an_end(self, which: int, before: float) -> None:
        """To the very second at which an item expires, or just before it."""
        ends = sorted({end for _, container in self.world.containers() for end in container.ends()})
        if ends:
            instant = ends[min(which, len(ends) - 1)] - before
            if self.now < instant < self.now + 100_000:
                self.site.clock.set(instant)
                self.world.purge(self.now)

    def drain(self) -> None:
        """Purges expired items, which no request may notice."""
        expect(self.raw.post("/_perseid/ttl/drain", {}), 200)

    # Always

    @invariant()
    def the_touched_container_holds_what_it_should(self) -> None:
        self.site.steps += 1
        container = self.world.find(*self.touched)
        if container is not None:
            path = self.path(*self.touched)
            found = self.raw.query(f"{path}/docs", "SELECT VALUE c.id FROM c")
            expect(found, 200)
            shown = found.json["Documents"]
            expected = [item.body["id"] for item in container.listed()]
            assert shown == expected, (shown, expected)

    def teardown(self) -> None:
        for database, each in self.world.databases.items():
            for name, container in each.containers.items():
                path = f"{self.path(database, name)}/docs"
                all_same(self.raw.get(path).json["Documents"], container.listed())
            expect(self.raw.delete(f"/dbs/{self.prefix}{database}"), 204)

    # Shared

    def _container(self, database: str, name: str, reply: Reply) -> Container | None:
        """The model's container; without one the server has none either."""
        container = self.world.find(database, name)
        if container is None:
            expect(reply, 404, 1003)
        return container

    def _present(self, database: str, name: str, key: Key) -> Key:
        """The key, or the next one that has an item."""
        container = self.world.find(database, name)
        found = sorted(container.items) if container is not None else []
        return next((each for each in found if each >= key), found[0] if found else key)

    def _condition(
        self, database: str, name: str, key: Key, etag: str | None
    ) -> tuple[str | None, dict[str, str]]:
        """The etag to send with If-Match, if any, and the header."""
        if etag == "current":
            container = self.world.find(database, name)
            item = None if container is None else container.items.get(key)
            etag = None if item is None else item.etag
        return etag, {} if etag is None else {"if_match": etag}

    def _written(
        self, container: Container, key: Key, body: Document, reply: Reply, status: int
    ) -> None:
        expect(reply, status)
        if status < 300:
            container.put(key, body, self.now, reply.json["_etag"])
            same(reply.json, container.items[Key(key.pk, body["id"])])

    def _pages(self, ask: Any, pk: str | None, page: int | None) -> list[Any]:
        """Everything, page by page."""
        headers = {} if page is None else {"count": str(page)}
        if pk is not None:
            headers["pk"] = json.dumps([pk])
        found: list[Any] = []
        while True:
            reply = ask(**headers)
            expect(reply, 200)
            found += reply.json["Documents"]
            token = reply.headers.get("x-ms-continuation")
            if token is None:
                return found
            headers["continuation"] = token


def document(key: Key, rest: Document) -> Document:
    return {"id": key.id, "pk": key.pk, **rest}


def header(key: Key) -> str:
    return json.dumps([key.pk])


def patch_body(patch: Patch) -> Document:
    body: Document = {"operations": patch.operations}
    if patch.least is not None:
        body["condition"] = f"from c where c.n >= {patch.least}"
    return body


def operation(step: Step) -> Document:
    """A step as a batch has it."""
    sent: Document = {"operationType": step.how.capitalize()}
    if step.how not in ("create", "upsert"):
        sent["id"] = step.key.id
    if step.how == "patch":
        sent["resourceBody"] = patch_body(step.patch)
    elif step.how not in ("read", "delete"):
        sent["resourceBody"] = step.body
    return sent if step.etag is None else sent | {"ifMatch": step.etag}


def expect(reply: Reply, status: int, sub_status: int = 0) -> None:
    assert (reply.status, reply.sub_status) == (status, sub_status), reply


def same(found: Document, item: Item) -> None:
    """What the server shows is what was written, and when."""
    sent = {name: value for name, value in found.items() if not name.startswith("_")}
    assert (sent, found["_ts"], found["_etag"]) == (item.body, item.ts, item.etag), (found, item)


def all_same(found: Sequence[Document], items: Sequence[Item]) -> None:
    shown, expected = [each["id"] for each in found], [item.body["id"] for item in items]
    assert shown == expected, (shown, expected)
    for each, item in zip(found, items, strict=True):
        same(each, item)


def play(site: Site, rules: settings, number: int | None = None) -> None:
    """Runs the machine against the site; `number` chooses the runs."""
    bound = type("Machine", (Machine,), {"site": site})
    run_state_machine_as_test(bound if number is None else seed(number)(bound), settings=rules)
