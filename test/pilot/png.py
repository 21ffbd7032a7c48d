"""Reads the pixels of a PNG as a browser writes it: 8 bits a channel, RGB or RGBA, not interlaced."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Image:
    width: int
    height: int
    channels: int
    rows: list[bytearray]

    def colours(self, left: int, top: int, right: int, bottom: int) -> dict[tuple[int, int, int], int]:
        """How many pixels of each colour a rectangle has."""
        found: dict[tuple[int, int, int], int] = {}
        for row in self.rows[max(0, top) : bottom]:
            for x in range(max(0, left), min(right, self.width)):
                at = x * self.channels
                colour = (row[at], row[at + 1], row[at + 2])
                found[colour] = found.get(colour, 0) + 1
        return found


def read(path: Path) -> Image:
    raw = path.read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, header = 8, b"", b""
    while at < len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        kind, body = raw[at + 4 : at + 8], raw[at + 8 : at + 8 + length]
        header = body if kind == b"IHDR" else header
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, interlaced) == (8, 0) and colour in (2, 6)
    channels = 3 if colour == 2 else 4
    return Image(width, height, channels, _rows(zlib.decompress(data), width * channels, height, channels))


def _rows(data: bytes, stride: int, height: int, channels: int) -> list[bytearray]:
    rows: list[bytearray] = []
    above = bytearray(stride)
    for number in range(height):
        at = number * (stride + 1)
        row = bytearray(data[at + 1 : at + 1 + stride])
        _unfilter(data[at], row, above, channels)
        rows.append(row)
        above = row
    return rows


def _unfilter(how: int, row: bytearray, above: bytearray, channels: int) -> None:
    if how == 0:
        return
    if how == 2:
        for i, up in enumerate(above):
            row[i] = (row[i] + up) & 255
        return
    for i in range(len(row)):
        left = row[i - channels] if i >= channels else 0
        if how == 1:
            row[i] = (row[i] + left) & 255
        elif how == 3:
            row[i] = (row[i] + (left + above[i]) // 2) & 255
        else:
            corner = above[i - channels] if i >= channels else 0
            row[i] = (row[i] + _paeth(left, above[i], corner)) & 255


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    by_left, by_up, by_corner = abs(guess - left), abs(guess - up), abs(guess - corner)
    if by_left <= by_up and by_left <= by_corner:
        return left
    return up if by_up <= by_corner else corner
