import json

from tests.rooms.embedded.calls import MAPS, call, make, names, new_server


def test_two_servers_with_one_seed_create_the_same_objects() -> None:
    first, second = new_server(seed=1), new_server(seed=1)
    generated = {"metadata": {"generateName": "x-"}}
    assert call(first, "POST", MAPS, generated) == call(second, "POST", MAPS, generated)


def test_an_earlier_version_can_be_listed_while_the_history_holds_it() -> None:
    server = new_server()
    make(server, "a")
    before = make(server, "b")["metadata"]["resourceVersion"]
    call(server, "DELETE", f"{MAPS}/a")
    call(server, "PATCH", f"{MAPS}/b", {"data": {"x": "y"}})
    make(server, "c")
    past = call(server, "GET", MAPS, resourceVersion=before, resourceVersionMatch="Exact")
    assert names(past) == ["a", "b"]
    assert "data" not in past["items"][1]
    assert past["metadata"]["resourceVersion"] == before


def test_pages_show_the_snapshot_of_the_first_page() -> None:
    server = new_server()
    for name in ("a", "b", "c", "d"):
        make(server, name)
    first = call(server, "GET", MAPS, limit="2")
    make(server, "bb")
    call(server, "DELETE", f"{MAPS}/d")
    token = first["metadata"]["continue"]
    rest = call(server, "GET", MAPS, limit="2", continue_=token)
    assert (names(first), names(rest)) == (["a", "b"], ["c", "d"])
    assert first["metadata"]["remainingItemCount"] == 2


def test_a_continue_token_from_before_a_compaction_expires_and_offers_another() -> None:
    server = new_server()
    for name in ("a", "b", "c"):
        make(server, name)
    token = call(server, "GET", MAPS, limit="1")["metadata"]["continue"]
    make(server, "bb")
    server.compact()
    expired = call(server, "GET", MAPS, limit="1", continue_=token)
    assert (expired["code"], expired["reason"]) == (410, "Expired")
    anyhow = call(server, "GET", MAPS, continue_=expired["metadata"]["continue"])
    assert names(anyhow) == ["b", "bb", "c"]


def test_an_update_without_changes_keeps_the_version() -> None:
    server = new_server()
    made = make(server, "a", data={"x": "y"})
    assert call(server, "PATCH", f"{MAPS}/a", {"data": {"x": "y"}}) == made
    assert (
        call(server, "GET", MAPS)["metadata"]["resourceVersion"]
        == (made["metadata"]["resourceVersion"])
    )


def test_objects_are_listed_in_the_order_of_etcds_keys() -> None:
    server = new_server()
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "default-x"}})
    make(server, "b")
    call(server, "POST", "/api/v1/namespaces/default-x/configmaps", {"metadata": {"name": "a"}})
    everywhere = call(server, "GET", "/api/v1/configmaps")
    assert names(everywhere) == ["a", "b"]  # "default-x/" comes before "default/"


def test_a_dry_run_answers_and_stores_nothing() -> None:
    server = new_server()
    version = server.store.version
    answer = call(server, "POST", MAPS, {"metadata": {"name": "a"}}, dryRun="All")
    assert "resourceVersion" not in answer["metadata"]
    assert server.store.version == version
    assert call(server, "GET", f"{MAPS}/a")["code"] == 404


def test_a_list_returns_the_exact_bytes_that_were_written() -> None:
    server = new_server()
    made = make(server, "a", data={"k": "значение", "quote": 'a"b\\n'})
    del made["kind"], made["apiVersion"]
    assert call(server, "GET", MAPS)["items"] == [made]
    assert json.dumps(made)
