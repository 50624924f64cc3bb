"""Makes the files here: the same rows as lines of JSON, in Parquet, and in Arrow's stream and file
formats. Needs pyarrow 26.0.1.

usage: make.py    (in this folder)
"""

import base64
import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
URI = "data:image/png;base64," + base64.b64encode(PNG).decode()
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
UTC = datetime.timezone.utc

# A column's name, its type, its values, and those as JSON has them, where they are not the same.
KINDS = [
    ("text", pa.string(), ['a "b" \\ \n\t\x01é漢😀', "", None]),
    ("large", pa.large_string(), ["one", None, "three"]),
    ("view", pa.string_view(), ["short", "longer than the twelve bytes of a view", None]),
    ("word", pa.dictionary(pa.int32(), pa.string()), ["same", "other", "same"]),
    ("yes", pa.bool_(), [True, False, None]),
    ("none", pa.null(), [None, None, None]),
    ("i8", pa.int8(), [-128, 127, None]),
    ("u8", pa.uint8(), [0, 255, None]),
    ("i16", pa.int16(), [-32768, 32767, None]),
    ("u32", pa.uint32(), [0, 4294967295, None]),
    ("i64", pa.int64(), [-9223372036854775808, 9223372036854775807, None]),
    ("u64", pa.uint64(), [0, 18446744073709551615, None]),
    ("f16", pa.float16(), [0.5, -2.0, None]),
    ("f32", pa.float32(), [0.1, 1e20, float("nan")], [0.1, 1e20, None]),
    ("f64", pa.float64(), [0.1, 3.0, float("-inf")], [0.1, 3.0, None]),
    ("decimal", pa.decimal128(10, 2), [decimal.Decimal("12.50"), decimal.Decimal("-0.07"), None],
     [12.5, -0.07, None]),
    ("date", pa.date32(), [datetime.date(2026, 11, 30), datetime.date(1, 2, 3), None],
     ["2026-11-30", "0001-02-03", None]),
    ("time", pa.time64("us"), [datetime.time(13, 4, 5, 250000), datetime.time(0, 0), None],
     ["13:04:05.250000", "00:00:00", None]),
    ("at", pa.timestamp("ms"),
     [datetime.datetime(2026, 11, 30, 13, 4, 5), datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
      None],
     ["2026-11-30T13:04:05", "1969-12-31T23:59:59.999", None]),
    ("zoned", pa.timestamp("us", tz="Europe/Oslo"),
     [datetime.datetime(2026, 11, 30, 13, 4, 5, tzinfo=UTC), None, None],
     ["2026-11-30T13:04:05Z", None, None]),
    ("list", pa.list_(pa.int32()), [[1, None, 3], [], None]),
    ("large_list", pa.large_list(pa.string()), [["a"], [], None]),
    ("fixed", pa.list_(pa.float32(), 2), [[1.0, 2.5], [3.0, 4.0], None]),
    ("nested", pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(
        pa.struct([("type", pa.string()), ("n", pa.int64())])))])),
     [[{"role": "user", "content": [{"type": "text", "n": None}, None]}, {"role": None, "content": []}],
      [], None]),
    ("map", pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], None],
     [{"a": 1, "b": None}, {}, None]),
    ("numbered", pa.map_(pa.int32(), pa.string()), [[(1, "a")], [], None],
     [[{"key": 1, "value": "a"}], [], None]),
    ("binary", pa.binary(), ["é".encode(), PNG, None], ["é", URI, None]),
    ("image", IMAGE, [{"bytes": PNG, "path": "a.png"}, {"bytes": None, "path": "b.jpg"}, None],
     [URI, "b.jpg", None]),
    ("images", pa.list_(IMAGE), [[{"bytes": PNG, "path": None}], [], None], [[URI], [], None]),
]

REFUSED = [
    ("text", pa.string(), ["A text."]),
    ("duration", pa.duration("s"), [5]),
    ("bytes", pa.binary(), [b"\xff\x00"]),
    ("sound", IMAGE, [{"bytes": b"RIFF", "path": "a.wav"}]),
    ("far", pa.date32(), [3000000]),
    ("long", pa.timestamp("s"), [-9223372036854775808]),
]

CHATS = [{"id": 100 + i, "messages": [
    {"role": "user", "content": f"Where is number {i}?", "name": None},
    {"role": "assistant", "content": "In port.\n" * (1 + i % 3), "name": "pilot" if i % 5 == 0 else None}],
    "embedding": [i + 0.5] * 4} for i in range(40)]
CHAT = pa.schema([
    ("id", pa.int64()),
    ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()),
                                     ("name", pa.string())]))),
    ("embedding", pa.list_(pa.float32()))])


def table(columns):
    return pa.table([pa.array(values, type) for _, type, values, *_ in columns],
                    [name for name, *_ in columns])


def write_lines(name, rows):
    with open(name, "w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_arrow(name, rows, batch, new=pa.ipc.new_stream, codec=None):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with new(name, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=batch)


kinds = table(KINDS)
write_lines("kinds.jsonl", [{name: (as_json[0] if as_json else values)[i]
                             for name, _, values, *as_json in KINDS} for i in range(3)])
pq.write_table(kinds, "kinds.parquet", row_group_size=2)
write_arrow("kinds_stream.arrow", kinds, 2)
write_arrow("kinds_file.arrow", kinds, 2, pa.ipc.new_file)

write_arrow("refused.arrow", table(REFUSED), 1)
write_arrow("twice.arrow", pa.table([[1], [2]], ["a", "a"]), 1)
pq.write_table(pa.table([]), "no_columns.parquet")

chats = pa.Table.from_pylist(CHATS, CHAT)
write_lines("chat.jsonl", CHATS)
write_arrow("chat_stream.arrow", chats, 7)
for codec in "lz4", "zstd":
    write_arrow(f"chat_{codec}.arrow", chats, 16, pa.ipc.new_file, codec)
for codec in "none", "snappy", "gzip", "brotli", "lz4", "zstd":
    pq.write_table(chats, f"chat_{codec}.parquet", row_group_size=16, compression=codec,
                   data_page_version="2.0" if codec == "zstd" else "1.0")
