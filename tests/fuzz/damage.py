"""What goes wrong with the bytes of a file: line ends, marks, lost and foreign pieces, single bits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

__all__ = ["DAMAGES", "TEXT_DAMAGES", "damage_bytes"]

_PIECES = [
    b"\x00",
    b"\r",
    b"\n",
    b"\r\n",
    b"\n\r",
    b'"',
    b'""',
    b",",
    b"\t",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x1a",
    b"\xef\xbb\xbf",
]
_FOREIGN = [
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"PAR1",
    b"\x93NUMPY\x01\x00",
    b"\xff\xfe",
    b"\xfe\xff",
    b"%PDF-1.4",
    b"{",
    b"[",
    b"<html>",
]


def damage_bytes(content: bytes, random: Random, n_damages: int, *, is_text: bool) -> tuple[bytes, list[str]]:
    """Return the content with some damages, and their names."""
    names = []
    for _ in range(n_damages):
        damage = random.choice([*DAMAGES, *TEXT_DAMAGES] if is_text else DAMAGES)
        content = damage(content, random)
        names.append(damage.__name__)
    return content, names


def _place(content: bytes, random: Random) -> int:
    # Headers and footers decide most: half of the places are within a few bytes of an end.
    if random.random() < 0.5 and len(content) > 64:
        return random.choice([random.randrange(64), len(content) - 1 - random.randrange(64)])
    return random.randrange(len(content) + 1)


def flip_bits(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice([1, 1, 3, 20])):
        if changed:
            changed[min(_place(content, random), len(changed) - 1)] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


def behead(content: bytes, random: Random) -> bytes:
    return content[_place(content, random) :]


def cut_out(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    return content[:start] + content[start + random.choice([1, 2, 10, 100]) :]


def repeat_block(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    block = content[start : start + random.choice([1, 7, 60, 500])]
    return content[:start] + block * random.choice([2, 5]) + content[start:]


def splice(content: bytes, random: Random) -> bytes:
    """Put one part of the file over another."""
    source, target, length = _place(content, random), _place(content, random), random.choice([4, 30, 200])
    return content[:target] + content[source : source + length] + content[target + length :]


def overwrite(content: bytes, random: Random) -> bytes:
    start, length = _place(content, random), random.choice([1, 4, 32])
    return content[:start] + random.randbytes(length) + content[start + length :]


def foreign_start(content: bytes, random: Random) -> bytes:
    start = random.choice(_FOREIGN)
    return start + content[random.choice([0, len(start)]) :]


def replace_all(content: bytes, random: Random) -> bytes:
    return random.choice([b"", b"\n", b"\r", b"\r\n\r\n", b" ", b"\x00" * 100, random.randbytes(300), *_FOREIGN])


def insert_piece(content: bytes, random: Random) -> bytes:
    for _ in range(random.choice([1, 1, 4])):
        start = _place(content, random)
        content = content[:start] + random.choice(_PIECES) + content[start:]
    return content


def mix_line_ends(content: bytes, random: Random) -> bytes:
    lines, ends = content.split(b"\n"), [b"\n", b"\r\n", b"\r", b"\n\n", b"\n\r"]
    return b"".join(line + random.choice(ends) for line in lines)


def old_line_ends(content: bytes, random: Random) -> bytes:
    return content.replace(b"\n", random.choice([b"\r", b"\r\n", b"\x0b", b"\xe2\x80\xa8"]))


def add_mark(content: bytes, random: Random) -> bytes:
    return (
        random.choice([b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2, b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00"]) + content
    )


def change_separators(content: bytes, random: Random) -> bytes:
    first, second = random.sample([b",", b";", b"\t", b"|", b" ", b":"], 2)
    return content.replace(first, second, random.choice([1, 10, -1]))


DAMAGES: list[Callable[[bytes, Random], bytes]] = [
    *(flip_bits, flip_bits, truncate, behead, cut_out, repeat_block, splice, overwrite, foreign_start, replace_all),
]
TEXT_DAMAGES: list[Callable[[bytes, Random], bytes]] = [
    *(insert_piece, insert_piece, insert_piece, mix_line_ends, old_line_ends, add_mark, change_separators),
]
