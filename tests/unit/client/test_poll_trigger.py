import asyncio
import threading

from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.errors import NetworkError


def test_poll_trigger_waits_for_an_event_unless_it_has_occurred() -> None:
    async def main() -> None:
        trigger = PollTrigger()
        for wake in (trigger.set, lambda: trigger.fail(NetworkError("down"))):
            trigger.expect()
            assert not trigger.arrives_within(0)
            waiting = asyncio.create_task(asyncio.to_thread(trigger.arrives_within, 10))
            threading.Thread(target=wake).start()
            assert await waiting
            assert trigger.arrives_within(0), "an event between expect() and the wait counts"
            assert trigger.is_set
        assert isinstance(trigger.error, NetworkError)

    asyncio.run(main())
