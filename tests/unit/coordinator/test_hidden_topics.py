"""Subscriptions by regular expression with an authorizer: members match only topics they may describe."""

from __future__ import annotations

from typing import Any

from tests.unit.coordinator.consumer_world import CLIENT, World, assigned

REFRESH_MS = 600_000
EVERYTHING = {"ta", "tb", "tc"}


def world_of(*topics: str) -> World:
    return World(dict.fromkeys(topics, 1), authorizer_class_name="AclAuthorizer")


def as_client(world: World, *seen: str) -> World:
    """Send the next requests as a client with DESCRIBE on these topics."""
    world.client = CLIENT._replace(may_describe=set(seen).__contains__)
    return world


def join(world: World, member: str, expression: str = "t.*") -> Any:
    return world.join(member, None, subscribed_topic_regex=expression)


def heartbeat_until_stable(world: World, **sees: set[str]) -> int:
    """Send heartbeats of all members in turn until none changes the group. Return the number of rounds."""
    for rounds in range(10):
        epoch = world.group.epoch
        for name, seen in sees.items():
            member = world.group.members[name]
            owned: dict[str, list[int]] = {}
            for tip in member.assigned:
                owned.setdefault(tip.topic_id.bytes.rstrip(b".").decode(), []).append(tip.partition)
            as_client(world, *seen).heartbeat(name, member.epoch, owned)
        if world.group.epoch == epoch:
            return rounds
    raise AssertionError("the members undo each other's work")


def resolved(world: World, expression: str = "t.*") -> set[str]:
    return set(world.group.regexes[expression].topics)


def test_regex_does_not_match_topics_without_describe_permission() -> None:
    world = world_of("ta", "tb")
    assert assigned(join(as_client(world, "ta"), "m")) == {"ta": [0]}


def test_regex_without_an_authorizer_matches_all_topics() -> None:
    assert assigned(join(World({"ta": 1, "tb": 1}), "m")) == {"ta": [0], "tb": [0]}


def test_new_topic_matches_for_members_that_may_describe_it() -> None:
    world = world_of("ta")
    join(as_client(world, "ta", "tc"), "m")
    assert heartbeat_until_stable(world, m={"ta", "tc"}) == 0
    world.topics({"ta": 1, "tb": 1, "tc": 1})
    assert heartbeat_until_stable(world, m={"ta", "tc"}) == 1
    assert resolved(world) == {"ta", "tc"}


def test_shared_regex_matches_topics_that_all_members_may_describe() -> None:
    world = world_of("ta", "tb")
    join(as_client(world, *EVERYTHING), "wide")
    assert resolved(world) == {"ta", "tb"}
    assert assigned(join(as_client(world, "ta"), "narrow")) in ({}, {"ta": [0]})
    assert resolved(world) == {"ta"}
    heartbeat_until_stable(world, wide=EVERYTHING, narrow={"ta"})
    assert resolved(world) == {"ta"}


def test_regexes_of_members_do_not_hide_topics_from_each_other() -> None:
    world = world_of("ta", "tb")
    join(as_client(world, *EVERYTHING), "wide", "t.*")
    join(as_client(world, "ta"), "narrow", "t[a-z]")
    world.topics({"ta": 1, "tb": 1, "tc": 1})
    heartbeat_until_stable(world, wide=EVERYTHING, narrow={"ta"})
    assert (resolved(world), resolved(world, "t[a-z]")) == (EVERYTHING, {"ta"})
    world.topics({"ta": 1, "tb": 1})
    heartbeat_until_stable(world, narrow={"ta"}, wide=EVERYTHING)
    assert (resolved(world), resolved(world, "t[a-z]")) == ({"ta", "tb"}, {"ta"})


def test_topics_denied_later_are_revoked_with_the_next_heartbeat() -> None:
    world = world_of("ta", "tb")
    response = join(as_client(world, "ta", "tb"), "m")
    response = as_client(world, "ta").heartbeat("m", response.member_epoch, {"ta": [0], "tb": [0]})
    assert assigned(response) == {"ta": [0]}


def test_topics_allowed_later_match_after_a_refresh() -> None:
    world = world_of("ta", "tb")
    join(as_client(world, "ta"), "m")
    heartbeat_until_stable(world, m={"ta"})
    heartbeat_until_stable(world, m=EVERYTHING)
    assert resolved(world) == {"ta"}
    world.clock.advance(REFRESH_MS)
    assert heartbeat_until_stable(world, m=EVERYTHING) == 1
    assert resolved(world) == {"ta", "tb"}


def test_leave_of_a_member_does_not_add_topics_to_the_regex() -> None:
    world = world_of("ta", "tb")
    join(as_client(world, "ta"), "m")
    join(as_client(world, "ta"), "n")
    world.leave("n")
    assert resolved(world) == {"ta"}


def test_regex_matches_no_topics_without_a_client_to_authorize() -> None:
    assert assigned(join(world_of("ta"), "m")) == {}
