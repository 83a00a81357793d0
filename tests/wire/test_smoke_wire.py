from tests.support.raw import RawClient
def test_it(raw: RawClient, container: str) -> None:
    r = raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert r.status == 201, r
    assert raw.get(f"{container}/docs/1", pk='["a"]').json["id"] == "1"
