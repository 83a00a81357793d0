"""Offers: how throughput is asked for, found, changed, and when it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.replies import outcome

AUTOPILOT = "x-ms-cosmos-offer-autopilot-settings"
THROUGHPUT = "x-ms-offer-throughput"
TOO_LOW = "Requested throughput {} is less than required minimum throughput {}"
TO_AUTOSCALE = "x-ms-cosmos-migrate-offer-to-autopilot"
TO_MANUAL = "x-ms-cosmos-migrate-offer-to-manual-throughput"


def create_with_offer(
    raw: RawClient, database: str, name: str = "c", **headers: str
) -> dict[str, Any]:
    reply = raw.request(
        "POST", f"{database}/colls", {"id": name, "partitionKey": PARTITION_KEY}, headers
    )
    assert reply.status == 201
    body: dict[str, Any] = reply.json
    return body


def offers_of(raw: RawClient, resource: dict[str, Any]) -> list[dict[str, Any]]:
    """The way Python finds an offer."""
    text = "SELECT * FROM root r WHERE r.resource=@link"
    reply = raw.query("/offers", text, [{"name": "@link", "value": resource["_self"]}])
    assert reply.status == 200
    found: list[dict[str, Any]] = reply.json["Offers"]
    return found


def manual(throughput: int, highest: int | None = None) -> dict[str, Any]:
    return {
        "offerThroughput": throughput,
        "offerIsRUPerMinuteThroughputEnabled": False,
        "offerMinimumThroughputParameters": {
            "maxThroughputEverProvisioned": throughput if highest is None else highest,
            "maxConsumedStorageEverInKB": 0,
        },
    }


def autoscale(most: int, percent: int | None = None, highest: int | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "tier": 0,
        "maximumTierThroughput": 0,
        "autoUpgrade": False,
        "maxThroughput": most,
    }
    if percent is not None:
        settings["autoUpgradePolicy"] = {"throughputPolicy": {"incrementPercent": percent}}
    highest = most if highest is None else highest
    return manual(most // 10, highest) | {"offerAutopilotSettings": settings}


@pytest.fixture
def shared(raw: RawClient, name: str) -> Iterator[str]:
    """A database with throughput of its own."""
    path = f"/dbs/{name}-shared"
    assert raw.request("POST", "/dbs", {"id": path[5:]}, {THROUGHPUT: "700"}).status == 201
    yield path
    raw.delete(path)


# What is provisioned -----------------------------------------------------------------------------


def test_container_without_a_wish(raw: RawClient, database: str) -> None:
    owner = create_with_offer(raw, database)
    (offer,) = offers_of(raw, owner)
    rid = offer["_rid"]
    assert offer == {
        "offerVersion": "V2",
        "offerType": "Invalid",
        "content": manual(400),
        "resource": owner["_self"],
        "offerResourceId": owner["_rid"],
        "id": rid,
        "_rid": rid,
        "_self": f"offers/{rid}/",
        "_etag": offer["_etag"],
        "_ts": owner["_ts"],
    }
    assert len(rid) == 4
    assert offer["_etag"][0] == offer["_etag"][-1] == '"'


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({THROUGHPUT: "400"}, manual(400)),
        ({THROUGHPUT: "20000"}, manual(20000)),
        ({AUTOPILOT: '{"maxThroughput":1000}'}, autoscale(1000)),
        ({AUTOPILOT: '{"maxThroughput":4000}'}, autoscale(4000)),
        (
            {
                AUTOPILOT: '{"maxThroughput": 5000, "autoUpgradePolicy":'
                ' {"throughputPolicy": {"incrementPercent": 0}}}'
            },
            autoscale(5000, 0),
        ),
        (
            {
                AUTOPILOT: '{"maxThroughput":7000,"autoUpgradePolicy":'
                '{"throughputPolicy":{"incrementPercent":5}}}'
            },
            autoscale(7000, 5),
        ),
        ({"x-ms-offer-type": "S2"}, manual(400)),
    ],
)
def test_container_with_a_wish(
    raw: RawClient, database: str, headers: dict[str, str], content: dict[str, Any]
) -> None:
    (offer,) = offers_of(raw, create_with_offer(raw, database, **headers))
    assert offer["content"] == content


def test_database_has_an_offer_only_when_asked(raw: RawClient, database: str, shared: str) -> None:
    assert offers_of(raw, raw.get(database).json) == []
    owner = raw.get(shared).json
    (offer,) = offers_of(raw, owner)
    assert offer["content"] == manual(700)
    assert offer["resource"] == owner["_self"]
    assert offer["offerResourceId"] == owner["_rid"]


def test_containers_share_the_throughput_of_their_database(raw: RawClient, shared: str) -> None:
    assert offers_of(raw, create_with_offer(raw, shared, "sharing")) == []
    (own,) = offers_of(raw, create_with_offer(raw, shared, "own", **{THROUGHPUT: "500"}))
    assert own["content"] == manual(500)


def test_many_containers_raise_the_reported_minimum(raw: RawClient, shared: str) -> None:
    (offer,) = offers_of(raw, raw.get(shared).json)
    for number in range(26):
        body = {"id": f"c{number}", "partitionKey": PARTITION_KEY}
        assert raw.post(f"{shared}/colls", body).status == 201
    reply = raw.get(f"/offers/{offer['_rid']}")
    assert reply.headers["x-ms-cosmos-min-throughput"] == "500"


def test_many_containers_raise_the_minimum_of_their_database(raw: RawClient, shared: str) -> None:
    for number in range(27):
        create_with_offer(raw, shared, f"c{number}")
    create_with_offer(raw, shared, "own", **{THROUGHPUT: "500"})
    (offer,) = offers_of(raw, raw.get(shared).json)
    assert TOO_LOW.format(500, 600) in put_offer(raw, offer, manual(500)).json["message"]
    assert put_offer(raw, offer, manual(600)).status == 200
    scaling = put_offer(raw, offer, {}, **{TO_AUTOSCALE: "true"})
    assert scaling.json["content"] == autoscale(3000)


@pytest.mark.parametrize(
    ("headers", "fragment"),
    [
        ({THROUGHPUT: "-200"}, TOO_LOW.format(-200, 400)),
        ({THROUGHPUT: "0"}, "required minimum throughput 400"),
        ({THROUGHPUT: "399"}, "required minimum throughput 400"),
        ({THROUGHPUT: "450"}, "in increments of 100"),
        ({THROUGHPUT: "1e3"}, THROUGHPUT),
        ({THROUGHPUT: "4_00"}, THROUGHPUT),
        ({THROUGHPUT: ""}, THROUGHPUT),
        ({THROUGHPUT: "9" * 5000}, THROUGHPUT),
        ({AUTOPILOT: '{"maxThroughput":-200}'}, TOO_LOW.format(-200, 1000)),
        ({AUTOPILOT: '{"maxThroughput":999}'}, "required minimum throughput 1000"),
        ({AUTOPILOT: '{"maxThroughput":1500}'}, "in increments of 1000"),
        ({AUTOPILOT: '{"maxThroughput":"4000"}'}, "maxThroughput"),
        ({AUTOPILOT: '{"maxThroughput":4000.5}'}, "maxThroughput"),
        ({AUTOPILOT: "{}"}, "maxThroughput"),
        ({AUTOPILOT: "[]"}, "must be an object"),
        ({AUTOPILOT: ""}, AUTOPILOT),
        ({AUTOPILOT: "{"}, AUTOPILOT),
        ({AUTOPILOT: '{"maxThroughput":4000,"autoUpgradePolicy":5}'}, "autoUpgradePolicy"),
        ({THROUGHPUT: "400", AUTOPILOT: '{"maxThroughput":4000}'}, "together"),
    ],
)  # fmt: skip
def test_wishes_that_will_not_do(
    raw: RawClient, database: str, headers: dict[str, str], fragment: str
) -> None:
    reply = raw.request(
        "POST", f"{database}/colls", {"id": "c", "partitionKey": PARTITION_KEY}, headers
    )
    assert outcome(reply) == (400, 0, "BadRequest")
    assert fragment in reply.json["message"]
    assert raw.get(f"{database}/colls/c").status == 404


# Reading -----------------------------------------------------------------------------------------


@pytest.fixture
def owner(raw: RawClient, database: str) -> dict[str, Any]:
    return create_with_offer(raw, database)


@pytest.fixture
def offer(raw: RawClient, owner: dict[str, Any]) -> dict[str, Any]:
    (found,) = offers_of(raw, owner)
    return found


def test_read(raw: RawClient, offer: dict[str, Any]) -> None:
    for path in (f"/offers/{offer['_rid']}", f"/{offer['_self']}"):
        reply = raw.get(path)
        assert (reply.status, reply.json) == (200, offer)
        assert reply.headers["etag"] == offer["_etag"]
        assert float(reply.headers["x-ms-request-charge"]) == 1
        assert reply.headers["x-ms-cosmos-min-throughput"] == "400"
        assert reply.headers["x-ms-offer-replace-pending"] == "false"


def test_list(raw: RawClient, offer: dict[str, Any]) -> None:
    for path in ("/offers", "/offers/"):
        reply = raw.get(path)
        assert reply.status == 200
        assert list(reply.json) == ["_rid", "Offers", "_count"]
        assert reply.json["_rid"] == ""
        assert reply.json["_count"] == len(reply.json["Offers"])
        assert offer in reply.json["Offers"]
        assert "etag" not in reply.headers


@pytest.mark.parametrize(
    "text",
    [
        'SELECT * from root where root.resource = "{0[_self]}"',
        "SELECT * FROM root r WHERE r.offerResourceId = '{0[_rid]}'",
        "SELECT * FROM c WHERE c.offerResourceId IN ('{0[_rid]}')",
    ],
)
def test_queries_of_other_clients(
    raw: RawClient, owner: dict[str, Any], offer: dict[str, Any], text: str
) -> None:
    reply = raw.query("/offers", text.format(owner))
    assert reply.json == {"_rid": "", "Offers": [offer], "_count": 1}


def test_the_resource_is_compared_exactly(raw: RawClient, owner: dict[str, Any]) -> None:
    text = "SELECT * FROM root r WHERE r.resource=@link"
    link = owner["_self"].rstrip("/")
    reply = raw.query("/offers", text, [{"name": "@link", "value": link}])
    assert reply.json["Offers"] == []


@pytest.mark.parametrize("path", ["offers/offers/{}/", "offers/offers/{}", "offers/{}/x"])
def test_a_link_in_the_place_of_an_id(raw: RawClient, offer: dict[str, Any], path: str) -> None:
    changed = offer | {"content": manual(500)}
    for method, body in (("GET", None), ("PUT", changed)):
        reply = raw.request(method, f"/{path.format(offer['_rid'])}", body)
        assert outcome(reply) == (400, 0, "BadRequest")
        assert "is not the path of an offer, which is /offers/{rid}." in reply.json["message"]
    assert raw.get(f"/offers/{offer['_rid']}").json == offer


def test_unknown_offer(raw: RawClient, offer: dict[str, Any]) -> None:
    for rid in ("zzzz", "x", offer["_rid"] + "A"):
        assert outcome(raw.get(f"/offers/{rid}")) == (404, 0, "NotFound")
        assert outcome(raw.put(f"/offers/{rid}", offer)) == (404, 0, "NotFound")


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_offers_are_neither_made_nor_deleted(
    raw: RawClient, offer: dict[str, Any], method: str
) -> None:
    for path in ("/offers", f"/offers/{offer['_rid']}"):
        reply = raw.request(method, path, None if method == "DELETE" else offer)
        assert outcome(reply) == (405, 0, "MethodNotAllowed")


# Changing ----------------------------------------------------------------------------------------


def put_offer(raw: RawClient, offer: dict[str, Any], content: Any, **headers: str) -> Reply:
    body = offer | {"content": content}
    return raw.request("PUT", f"/offers/{offer['_rid']}", body, headers)


def test_replace(raw: RawClient, owner: dict[str, Any], offer: dict[str, Any]) -> None:
    reply = put_offer(raw, offer, offer["content"] | {"offerThroughput": 600})
    assert reply.status == 200
    changed = reply.json
    assert changed == offer | {
        "content": manual(600),
        "_etag": changed["_etag"],
        "_ts": changed["_ts"],
    }
    assert changed["_etag"] != offer["_etag"]
    assert reply.headers["etag"] == changed["_etag"]
    assert float(reply.headers["x-ms-request-charge"]) == 5
    assert offers_of(raw, owner) == [changed]


def test_replace_by_self_link(raw: RawClient, offer: dict[str, Any]) -> None:
    body = offer | {"content": {"offerThroughput": 800}}
    assert raw.put(f"/{offer['_self']}", body).json["content"] == manual(800)


def test_replace_remembers_the_highest(raw: RawClient, offer: dict[str, Any]) -> None:
    assert put_offer(raw, offer, {"offerThroughput": 50000}).json["content"] == manual(50000)
    assert put_offer(raw, offer, {"offerThroughput": 500}).json["content"] == manual(500, 50000)
    reply = put_offer(raw, offer, {"offerThroughput": 400})
    assert outcome(reply) == (400, 0, "BadRequest")
    assert TOO_LOW.format(400, 500) in reply.json["message"]


@pytest.mark.parametrize(
    ("wish", "change", "least"),
    [
        ({}, {"offerThroughput": 50_000}, "500"),
        ({}, {"offerThroughput": 50_100}, "600"),
        ({AUTOPILOT: '{"maxThroughput": 4000}'}, {"maxThroughput": 5000}, "1000"),
        ({AUTOPILOT: '{"maxThroughput": 4000}'}, {"maxThroughput": 21_000}, "3000"),
    ],
)
def test_the_least_that_may_be_set(
    raw: RawClient, database: str, wish: dict[str, str], change: dict[str, int], least: str
) -> None:
    (offer,) = offers_of(raw, create_with_offer(raw, database, **wish))
    content = {"offerAutopilotSettings": change} if wish else change
    replaced = put_offer(raw, offer, content)
    read = raw.get(f"/offers/{offer['_rid']}")
    for reply in (replaced, read):
        assert reply.status == 200
        assert reply.headers["x-ms-cosmos-min-throughput"] == least
        assert reply.headers["x-ms-offer-replace-pending"] == "false"


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        [],
        "400",
        {"offerThroughput": None},
        {"offerThroughput": "500"},
        {"offerThroughput": 500.5},
        {"offerThroughput": True},
        {"offerThroughput": 0},
        {"offerThroughput": -500},
        {"offerThroughput": 350},
        {"offerThroughput": 550},
        {"offerThroughput": 1e300},
        {"offerThroughput": 500, "offerAutopilotSettings": {"maxThroughput": 4000}},
    ],
)
def test_contents_that_will_not_do(
    raw: RawClient, owner: dict[str, Any], offer: dict[str, Any], content: Any
) -> None:
    assert outcome(put_offer(raw, offer, content)) == (400, 0, "BadRequest")
    assert offers_of(raw, owner) == [offer]


def test_replace_without_content(raw: RawClient, offer: dict[str, Any]) -> None:
    body = {name: value for name, value in offer.items() if name != "content"}
    reply = raw.put(f"/offers/{offer['_rid']}", body)
    assert outcome(reply) == (400, 0, "BadRequest")


@pytest.fixture
def scaling(raw: RawClient, database: str) -> dict[str, Any]:
    """An autoscale offer with a policy."""
    settings = {
        "maxThroughput": 4000,
        "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 5}},
    }
    (found,) = offers_of(raw, create_with_offer(raw, database, **{AUTOPILOT: json.dumps(settings)}))
    return found


def test_replace_of_autoscale(raw: RawClient, scaling: dict[str, Any]) -> None:
    settings = scaling["content"]["offerAutopilotSettings"]
    policy = {"throughputPolicy": {"incrementPercent": 0}}
    wish = settings | {"maxThroughput": 8000, "autoUpgradePolicy": policy}
    reply = put_offer(raw, scaling, scaling["content"] | {"offerAutopilotSettings": wish})
    assert reply.status == 200
    assert reply.json["content"] == autoscale(8000, 0)
    assert raw.get(f"/offers/{scaling['_rid']}").json == reply.json


def test_the_policy_of_autoscale_does_not_vanish(raw: RawClient, scaling: dict[str, Any]) -> None:
    reply = put_offer(raw, scaling, {"offerAutopilotSettings": {"maxThroughput": 5000}})
    assert reply.json["content"] == autoscale(5000, 5)


def test_autoscale_that_is_too_low(raw: RawClient, scaling: dict[str, Any]) -> None:
    reply = put_offer(raw, scaling, {"offerAutopilotSettings": {"maxThroughput": -200}})
    assert outcome(reply) == (400, 0, "BadRequest")
    assert TOO_LOW.format(-200, 1000) in reply.json["message"]


def test_manual_to_autoscale_and_back(raw: RawClient, offer: dict[str, Any]) -> None:
    there = put_offer(raw, offer, offer["content"], **{TO_AUTOSCALE: "true"})
    assert there.json["content"] == autoscale(1000)
    back = put_offer(raw, offer, there.json["content"], **{TO_MANUAL: "True"})
    assert back.json["content"] == manual(1000)


def test_modes_change_only_when_asked(
    raw: RawClient, offer: dict[str, Any], scaling_shared: dict[str, Any]
) -> None:
    wish = {"offerAutopilotSettings": {"maxThroughput": 4000}}
    reply = put_offer(raw, offer, wish)
    assert outcome(reply) == (400, 0, "BadRequest")
    assert TO_AUTOSCALE in reply.json["message"]
    reply = put_offer(raw, scaling_shared, {"offerThroughput": 500})
    assert outcome(reply) == (400, 0, "BadRequest")
    assert TO_MANUAL in reply.json["message"]


@pytest.fixture
def scaling_shared(raw: RawClient, name: str) -> Iterator[dict[str, Any]]:
    """The autoscale offer of a database."""
    path = f"/dbs/{name}-scaling"
    made = raw.request("POST", "/dbs", {"id": path[5:]}, {AUTOPILOT: '{"maxThroughput":3000}'})
    yield offers_of(raw, made.json)[0]
    raw.delete(path)


def test_if_match(raw: RawClient, offer: dict[str, Any]) -> None:
    wish = {"offerThroughput": 500}
    refused = put_offer(raw, offer, wish, **{"if-match": '"other"'})
    assert outcome(refused) == (412, 0, "PreconditionFailed")
    assert raw.get(f"/offers/{offer['_rid']}").json == offer
    assert put_offer(raw, offer, wish, **{"if-match": offer["_etag"]}).status == 200
    again = put_offer(raw, offer, wish, **{"if-match": offer["_etag"]})
    assert outcome(again) == (412, 0, "PreconditionFailed")
    assert put_offer(raw, offer, wish, **{"if-match": "*"}).status == 200


def test_offer_goes_with_its_container(
    raw: RawClient, database: str, owner: dict[str, Any], offer: dict[str, Any]
) -> None:
    assert raw.delete(f"{database}/colls/c").status == 204
    assert offers_of(raw, owner) == []
    assert outcome(raw.get(f"/offers/{offer['_rid']}")) == (404, 0, "NotFound")
    again = create_with_offer(raw, database)
    (new,) = offers_of(raw, again)
    assert new["_rid"] != offer["_rid"]


def test_intended_container_is_no_matter_here(raw: RawClient, owner: dict[str, Any]) -> None:
    """Python sends it along when it looks for an offer."""
    headers = {"x-ms-cosmos-intended-collection-rid": owner["_rid"]}
    body = {"query": "SELECT * FROM root r WHERE r.resource='x'"}
    sent = headers | {"x-ms-documentdb-isquery": "true"}
    assert raw.request("POST", "/offers", body, sent).status == 200
