"""The buffer pool of the producer: reuse, limits and waiters."""

from __future__ import annotations

from ottla.client.producer.buffer_pool import BufferPool


def test_released_buffer_of_the_batch_size_is_reused() -> None:
    pool = BufferPool(1000, 100)
    buffer = pool.try_allocate(100)
    assert buffer is not None
    pool.release(buffer)
    assert pool.try_allocate(100) is buffer


def test_released_buffer_that_is_large_for_the_pool_is_not_reused() -> None:
    pool = BufferPool(1000, 100)
    buffer = pool.try_allocate(500)
    assert buffer is not None
    assert pool.available == 500
    pool.release(buffer)
    assert pool.available == 1000
    assert pool.try_allocate(500) is not buffer


def test_last_small_buffers_of_other_sizes_are_reused() -> None:
    pool = BufferPool(8000, 100)
    buffers = [pool.try_allocate(500) for _ in range(9)]
    for buffer in buffers:
        assert buffer is not None
        pool.release(buffer)
    assert pool.available == 8000
    reused = [pool.try_allocate(500) for _ in range(9)]
    assert [id(buffer) for buffer in reused[:8]] == [id(buffer) for buffer in buffers[1:]]
    assert pool.available == 8000 - 4500
    for buffer in reused:
        assert buffer is not None
        pool.release(buffer)
    assert pool.try_allocate(8000) is not None, "free buffers make room for a larger one"


def test_free_buffers_make_room_for_a_larger_one() -> None:
    pool = BufferPool(1000, 100)
    for buffer in [pool.try_allocate(100) for _ in range(10)]:
        assert buffer is not None
        pool.release(buffer)
    assert pool.try_allocate(950) is not None


def test_allocation_beyond_the_total_returns_none() -> None:
    pool = BufferPool(250, 100)
    assert pool.try_allocate(100) is not None
    assert pool.try_allocate(100) is not None
    assert pool.try_allocate(100) is None


def test_waiters_are_served_in_order_even_if_a_later_one_needs_less() -> None:
    pool = BufferPool(200, 100)
    first, second = pool.try_allocate(100), pool.try_allocate(100)
    assert first is not None
    assert second is not None
    served: list[str] = []
    large = pool.wait(150, lambda: served.append("large"))
    small = pool.wait(20, lambda: served.append("small"))
    assert large is not None
    assert small is not None
    assert pool.try_allocate(20) is None, "a later caller does not overtake waiting ones"
    pool.release(first)
    assert served == []
    pool.release(second)
    assert served == ["large", "small"]
    assert pool.available == 30


def test_exchange_releases_the_buffer_and_reserves_bytes() -> None:
    pool = BufferPool(1000, 100)
    buffers = [pool.try_allocate(100) for _ in range(10)]
    served: list[str] = []
    assert pool.wait(90, lambda: served.append("waiter")) is not None
    assert buffers[0] is not None
    pool.exchange(buffers[0], 10)
    assert served == ["waiter"]
    assert pool.available == 0
    pool.release_bytes(10)
    assert pool.available == 10
    assert buffers[1] is not None
    pool.exchange(buffers[1], 5)
    assert pool.try_allocate(100) is buffers[1]
    assert pool.available == 5


def test_cancelled_waiter_lets_the_next_one_allocate() -> None:
    pool = BufferPool(100, 50)
    assert pool.try_allocate(50) is not None
    served: list[str] = []
    large = pool.wait(100, lambda: served.append("large"))
    assert pool.wait(50, lambda: served.append("small")) is not None
    assert large is not None
    assert not pool.cancel(large)
    assert served == ["small"]


def test_cancel_after_the_allocation_leaves_the_memory_to_the_caller() -> None:
    pool = BufferPool(50, 50)
    buffer = pool.try_allocate(50)
    waiter = pool.wait(50, lambda: None)
    assert buffer is not None
    assert waiter is not None
    pool.release(buffer)
    assert pool.cancel(waiter)
    assert pool.available == 0
