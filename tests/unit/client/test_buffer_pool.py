from __future__ import annotations

from ottla.client.producer.buffer_pool import BufferPool


def test_a_buffer_of_the_batch_size_is_kept_and_used_again() -> None:
    pool = BufferPool(1000, 100)
    buffer = pool.try_allocate(100)
    assert buffer is not None
    pool.release(buffer)
    assert pool.try_allocate(100) is buffer


def test_a_larger_buffer_is_only_counted() -> None:
    pool = BufferPool(1000, 100)
    buffer = pool.try_allocate(500)
    assert buffer is not None
    assert pool.available == 500
    pool.release(buffer)
    assert pool.available == 1000
    assert pool.try_allocate(500) is not buffer


def test_the_last_small_buffers_of_other_sizes_are_used_again() -> None:
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
    assert pool.try_allocate(8000) is not None, "they make room for a larger one"


def test_kept_buffers_make_room_for_a_larger_one() -> None:
    pool = BufferPool(1000, 100)
    for buffer in [pool.try_allocate(100) for _ in range(10)]:
        assert buffer is not None
        pool.release(buffer)
    assert pool.try_allocate(950) is not None


def test_never_more_than_the_total() -> None:
    pool = BufferPool(250, 100)
    assert pool.try_allocate(100) is not None
    assert pool.try_allocate(100) is not None
    assert pool.try_allocate(100) is None


def test_waiters_are_served_in_order_even_when_a_later_one_wants_less() -> None:
    pool = BufferPool(200, 100)
    first, second = pool.try_allocate(100), pool.try_allocate(100)
    assert first is not None
    assert second is not None
    served: list[str] = []
    large = pool.wait(150, lambda: served.append("large"))
    small = pool.wait(20, lambda: served.append("small"))
    assert large is not None
    assert small is not None
    assert pool.try_allocate(20) is None, "no caller overtakes waiting ones"
    pool.release(first)
    assert served == []
    pool.release(second)
    assert served == ["large", "small"]
    assert pool.available == 30


def test_bytes_can_be_kept_without_their_buffer() -> None:
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


def test_who_leaves_the_line_lets_the_others_on() -> None:
    pool = BufferPool(100, 50)
    assert pool.try_allocate(50) is not None
    served: list[str] = []
    large = pool.wait(100, lambda: served.append("large"))
    assert pool.wait(50, lambda: served.append("small")) is not None
    assert large is not None
    assert not pool.cancel(large)
    assert served == ["small"]


def test_who_leaves_too_late_has_the_memory() -> None:
    pool = BufferPool(50, 50)
    buffer = pool.try_allocate(50)
    waiter = pool.wait(50, lambda: None)
    assert buffer is not None
    assert waiter is not None
    pool.release(buffer)
    assert pool.cancel(waiter)
    assert pool.available == 0
