"""The log on a real file: what was synced is read back, a torn end is cut off, damage before it is refused."""

import hashlib
import struct

import pytest

from accous.exceptions import CheckpointError
from accous.service.log import BatchLog, Record, open_log

HEAD = 59  # bytes before the first group


def record(number: int) -> Record:
    return Record("step", "application/json", b"x" * number, {"include": "ids"}, False, f"k{number}", b"d")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "batches.log"


def filled(path, *sizes: int) -> None:
    log = BatchLog.create(path)
    for size in sizes:
        log.append([record(number) for number in range(size)])
    log.close()


def test_records_come_back_with_their_numbers(path):
    filled(path, 3, 1, 2)
    log, records = open_log(path)
    assert [number for number, _ in records] == [1, 2, 3, 4, 5, 6]
    assert [each.body for _, each in records] == [b"", b"x", b"xx", b"", b"", b"x"]
    assert (records[2][1], log.n_cut) == (record(2), 0)


def test_a_log_that_was_started_again_goes_on_counting(path):
    log = BatchLog.create(path)
    log.append([record(1), record(2)])
    log.restart()
    assert log.is_empty
    assert log.append([record(3)]) == 3
    log.close()
    opened, records = open_log(path)
    assert [number for number, _ in records] == [3]
    assert opened.name == log.name


def test_every_torn_end_is_cut_off_and_the_rest_stays(path):
    filled(path, 2, 3)
    whole = path.read_bytes()
    log = BatchLog.create(path)
    log.append([record(number) for number in range(2)])
    n_first = log.n_bytes
    log.close()
    for length in range(n_first, len(whole)):
        path.write_bytes(whole[:length])
        opened, records = open_log(path)
        assert (len(records), opened.n_cut) == (2, length - n_first)
        opened.append([record(7)])
        opened.close()
        assert [each.body for _, each in open_log(path)[1]] == [b"", b"x", b"x" * 7]


@pytest.mark.parametrize("place", [-1, -20, -40])
def test_a_last_group_with_a_wrong_bit_is_cut_off(path, place):
    filled(path, 2, 3)
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    assert len(open_log(path)[1]) == 2


def test_a_hole_of_zeros_at_the_end_is_cut_off(path):
    filled(path, 2)
    n_bytes = len(path.read_bytes())
    path.write_bytes(path.read_bytes() + bytes(1000))
    assert open_log(path)[0].n_cut == 1000
    assert len(path.read_bytes()) == n_bytes


@pytest.mark.parametrize("bit", [1, 0x40])
def test_damage_before_the_last_group_is_refused_wherever_it_is(path, bit):
    """In lengths, numbers, checks and payloads of two groups: nothing is cut, and the file stays as it is."""
    filled(path, 2, 3)
    n_bytes = len(path.read_bytes())
    filled(path, 2, 3, 1)
    whole = path.read_bytes()
    for place in range(HEAD, n_bytes):
        content = bytearray(whole)
        content[place] ^= bit
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"damaged at byte"):
            open_log(path)
        assert path.read_bytes() == bytes(content)
    assert list(path.parent.iterdir()) == [path]


def test_what_is_cut_off_is_kept_beside_the_log(path):
    filled(path, 2, 3)
    path.write_bytes(path.read_bytes() + b"half a group")
    open_log(path)[0].close()
    assert path.with_name("batches.log.cut-after-5").read_bytes() == b"half a group"


def test_a_request_that_looks_like_a_group_does_not_stop_a_start(path):
    """A client may send the bytes of a group: in a torn last group, they are not taken for one that follows."""
    log = BatchLog.create(path)
    log.append([record(1)])
    head = struct.pack("<16sIQ", b"n" * 16, 4, 9)
    forged = head + hashlib.blake2b(head + b"abcd", digest_size=16).digest() + b"abcd"
    log.append([Record("step", "text/csv", b"x" * 50 + forged + b"y" * 50)])
    log.close()
    path.write_bytes(path.read_bytes()[:-10])
    assert len(open_log(path)[1]) == 1


def test_a_log_full_of_heads_is_refused(path):
    """By somebody who knows its name: nothing is checked of what they say, which would take hours."""
    log = BatchLog.create(path)
    log.close()
    path.write_bytes(
        path.read_bytes() + b"x" * 40 + struct.pack("<16sIQ", bytes.fromhex(log.name), 2_000_000, 9) * 150_000
    )
    with pytest.raises(CheckpointError, match="damaged at byte"):
        open_log(path)


def test_a_group_that_is_missing_is_not_passed_over(path):
    log = BatchLog.create(path)
    ends = [log.n_bytes]
    for number in range(3):
        log.append([record(number)])
        ends.append(log.n_bytes)
    log.close()
    content = path.read_bytes()
    for first, last in ((0, 1), (1, 2)):
        path.write_bytes(content[: ends[first]] + content[ends[last] :])
        with pytest.raises(CheckpointError, match="damaged at byte"):
            open_log(path)


def test_damage_before_a_torn_end_is_refused(path):
    """The first of two was synced before the second began, so it was acknowledged."""
    filled(path, 1)
    n_bytes = len(path.read_bytes())
    filled(path, 1, 2)
    content = bytearray(path.read_bytes()[:-10])
    content[n_bytes - 3] ^= 4
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged at byte"):
        open_log(path)


def test_another_file_is_refused(path):
    path.write_bytes(b"something else" * 10)
    with pytest.raises(CheckpointError, match="not a log"):
        open_log(path)
