"""Regular expressions of members that may not describe every topic, with an authorizer."""

from __future__ import annotations

from typing import Any

from tests.unit.coordinator.consumer_world import CLIENT, World, assigned

REFRESH_MS = 600_000
EVERYTHING = {"ta", "tb", "tc"}


def world_of(*topics: str) -> World:
    return World(dict.fromkeys(topics, 1), authorizer_class_name="AclAuthorizer")


def be(world: World, *seen: str) -> World:
    """Send the next requests as a client that may describe these topics."""
    world.client = CLIENT._replace(sees=set(seen).__contains__)
    return world


def join(world: World, member: str, expression: str = "t.*") -> Any:
    return world.join(member, None, subscribed_topic_regex=expression)


def beats_until_quiet(world: World, **sees: set[str]) -> int:
    """Send heartbeats of all members in turn until none changes the group. Return the number of rounds."""
    for rounds in range(10):
        epoch = world.group.epoch
        for name, seen in sees.items():
            member = world.group.members[name]
            owned: dict[str, list[int]] = {}
            for tip in member.assigned:
                owned.setdefault(tip.topic_id.bytes.rstrip(b".").decode(), []).append(tip.partition)
            be(world, *seen).beat(name, member.epoch, owned)
        if world.group.epoch == epoch:
            return rounds
    raise AssertionError("the members undo each other's work")


def resolved(world: World, expression: str = "t.*") -> set[str]:
    return set(world.group.regexes[expression].topics)


def test_regex_does_not_match_topics_without_describe() -> None:
    world = world_of("ta", "tb")
    assert assigned(join(be(world, "ta"), "m")) == {"ta": [0]}


def test_regex_without_an_authorizer_matches_all_topics() -> None:
    assert assigned(join(World({"ta": 1, "tb": 1}), "m")) == {"ta": [0], "tb": [0]}


def test_new_topic_matches_for_members_that_may_describe_it() -> None:
    world = world_of("ta")
    join(be(world, "ta", "tc"), "m")
    assert beats_until_quiet(world, m={"ta", "tc"}) == 0
    world.topics({"ta": 1, "tb": 1, "tc": 1})
    assert beats_until_quiet(world, m={"ta", "tc"}) == 1
    assert resolved(world) == {"ta", "tc"}


def test_shared_regex_matches_what_all_members_may_describe() -> None:
    world = world_of("ta", "tb")
    join(be(world, *EVERYTHING), "wide")
    assert resolved(world) == {"ta", "tb"}
    assert assigned(join(be(world, "ta"), "narrow")) in ({}, {"ta": [0]})
    assert resolved(world) == {"ta"}
    beats_until_quiet(world, wide=EVERYTHING, narrow={"ta"})
    assert resolved(world) == {"ta"}


def test_regexes_of_members_do_not_hide_topics_from_each_other() -> None:
    world = world_of("ta", "tb")
    join(be(world, *EVERYTHING), "wide", "t.*")
    join(be(world, "ta"), "narrow", "t[a-z]")
    world.topics({"ta": 1, "tb": 1, "tc": 1})
    beats_until_quiet(world, wide=EVERYTHING, narrow={"ta"})
    assert (resolved(world), resolved(world, "t[a-z]")) == (EVERYTHING, {"ta"})
    world.topics({"ta": 1, "tb": 1})
    beats_until_quiet(world, narrow={"ta"}, wide=EVERYTHING)
    assert (resolved(world), resolved(world, "t[a-z]")) == ({"ta", "tb"}, {"ta"})


def test_topics_denied_later_are_revoked_with_the_next_heartbeat() -> None:
    world = world_of("ta", "tb")
    answer = join(be(world, "ta", "tb"), "m")
    answer = be(world, "ta").beat("m", answer.member_epoch, {"ta": [0], "tb": [0]})
    assert assigned(answer) == {"ta": [0]}


def test_topics_allowed_later_match_after_a_refresh() -> None:
    world = world_of("ta", "tb")
    join(be(world, "ta"), "m")
    beats_until_quiet(world, m={"ta"})
    beats_until_quiet(world, m=EVERYTHING)
    assert resolved(world) == {"ta"}
    world.clock.advance(REFRESH_MS)
    assert beats_until_quiet(world, m=EVERYTHING) == 1
    assert resolved(world) == {"ta", "tb"}


def test_regex_after_a_member_leaves_reveals_no_topics() -> None:
    world = world_of("ta", "tb")
    join(be(world, "ta"), "m")
    join(be(world, "ta"), "n")
    world.leave("n")
    assert resolved(world) == {"ta"}


def test_member_without_a_client_sees_no_topics() -> None:
    assert assigned(join(world_of("ta"), "m")) == {}
