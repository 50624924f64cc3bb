#!/usr/bin/env python3
"""Writes the two files of this folder: pictures as files, and what transformers makes of them.

Python 3.11 with transformers 5.23.0, Pillow 13.0.0 (with libjpeg-turbo 3.2.0), numpy 2.4.6 and
safetensors 0.8.0, without torch; cjpeg 2.1.5 on PATH (Debian: libjpeg-turbo-progs).

edge_cases.safetensors:
  NAME.file    U8 [bytes]; NAME ends in .png or .jpg
  NAME.white   U8 [H, W, 3]: upright, a transparent color made white (do_convert_rgb)
  NAME.kept    the same with that color kept, where it differs
  resize.WxH.FILTER   U8: what Pillow's resize makes of the picture resize.png, [H, W, 3]

reference.safetensors: pictures that are kept there, so the file is read before it is written.
  NAME.file, NAME.white   as above; large.png has no NAME.white
  NAME.paligemma, NAME.gemma3   U8 [56, 56, 3]: pixel values, as indices into `levels`
  levels       F32 [256]: the pixel value that a byte becomes
"""

import io
import itertools
import pathlib
import struct
import subprocess
import tempfile
import warnings
import zlib

import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file
from transformers.image_transforms import convert_to_rgb
from transformers.image_utils import load_image
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

FOLDER = pathlib.Path(__file__).parent
random = np.random.default_rng(0)


def opened(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return load_image(file.name)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(samples, depth):
    """Rows of samples as PNG has them, each after the number of no filter."""
    rows = b""
    for row in samples.reshape(len(samples), -1):
        bits = (row[:, None] >> np.arange(depth - 1, -1, -1)) & 1
        rows += b"\0" + np.packbits(bits.astype(np.uint8)).tobytes()
    return rows


GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def png(color=RGB, depth=8, size=(13, 11), interlaced=False, samples=None, before=b"", after=b""):
    """A PNG, of kinds that Pillow does not write, with chunks before and behind its data."""
    width, height = size
    if samples is None:
        samples = random.integers(0, 2**depth, (height, width, CHANNELS[color]))
    if color == PALETTE and b"PLTE" not in before:
        before = chunk(b"PLTE", random.bytes(3 * 2**depth)) + before
    starts_and_steps = [(0, 0, 1, 1)]
    if interlaced:
        starts_and_steps = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                            (1, 0, 2, 2), (0, 1, 1, 2)]
    passes = [samples[y::down, x::right] for x, y, right, down in starts_and_steps]
    data = zlib.compress(b"".join(packed(part, depth) for part in passes if part.size))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", data[:20]) +
            chunk(b"IDAT", data[20:]) + after + chunk(b"IEND", b""))


def few_levels(color, depth, factor):
    return factor * random.integers(0, 4 if depth > 1 else 2, (11, 13, CHANNELS[color]))


def transparent(number, *more):
    return chunk(b"tRNS", struct.pack(f">{1 + len(more)}H", number, *more))


def pngs():
    for name, color, depths in (("grey", GREY, (1, 2, 4, 8, 16)), ("rgb", RGB, (8, 16)),
                                ("palette", PALETTE, (1, 2, 4, 8)),
                                ("grey_alpha", GREY_ALPHA, (8, 16)), ("rgba", RGBA, (8, 16))):
        for depth, interlaced in itertools.product(depths, (False, True)):
            yield f"{name}{depth}{'_interlaced' * interlaced}", png(
                color, depth, interlaced=interlaced)
    for size in ((1, 1), (1, 9), (9, 1), (3, 2)):
        for interlaced in (False, True):
            yield f"{size[0]}x{size[1]}{'_interlaced' * interlaced}", png(
                size=size, interlaced=interlaced)
    # A number that stands for a sample, and one that does not.
    for depth, number, factor in ((1, 0, 1), (1, 1, 1), (2, 0, 1), (2, 3, 1), (4, 1, 1), (8, 2, 1),
                                  (8, 300, 85), (16, 0, 1), (16, 2, 1), (16, 256, 1)):
        yield f"grey{depth}_key{number}", png(
            GREY, depth, samples=few_levels(GREY, depth, factor), before=transparent(number))
    two_colors = random.integers(0, 2, (11, 13, 1))
    for name, depth, color, other in (
            ("rgb8", 8, (1, 2, 3), (1, 2, 4)),
            ("rgb16_same_bytes", 16, (0x101, 0x202, 0), (0x102, 0x202, 0)),
            ("rgb16", 16, (0x1234, 0x1234, 0x1234), (0x3412, 0x3412, 0x3412))):
        samples = np.where(two_colors, np.array(color), np.array(other))
        yield f"{name}_key", png(depth=depth, samples=samples, before=transparent(*color))
    for name, alphas in (("first", b"\0"), ("second", b"\xff\0\xff"), ("half", b"\xff\x80"),
                         ("two", b"\0\0"), ("half_and_none", b"\x80\0"), ("none", b"\xff\xff")):
        # The last color is the second again.
        palette = chunk(b"PLTE", bytes((10, 20, 30, 40, 50, 60, 70, 80, 90, 40, 50, 60)))
        yield f"palette_alpha_{name}", png(
            PALETTE, 2, before=palette + chunk(b"tRNS", alphas))
    short = chunk(b"PLTE", bytes((10, 20, 30, 40, 50, 60)))
    yield "palette_short", png(PALETTE, 2, before=short)
    yield "color_spaces", png(
        before=chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"sRGB", b"\0") +
        chunk(b"cHRM", bytes(32)) + chunk(b"sBIT", b"\5\6\5"))
    yield "background", png(RGBA, before=chunk(b"bKGD", struct.pack(">HHH", 9, 9, 9)))


EXIF = b"Exif\0\0"


def exif(orientation, order="<", kind=3, count=1, magic=42):
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", magic, 8)
    value = struct.pack(order + "HH", orientation, 0)
    if kind == 4:
        value = struct.pack(order + "I", orientation)
    other = struct.pack(order + "HHI4s", 0x10F, 2, 3, b"ab\0\0")
    return (head + struct.pack(order + "H", 2) + other +
            struct.pack(order + "HHI", 274, kind, count) + value + bytes(4))


def app1(data):
    return b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data


def noise(size, channels=3):
    """Smooth enough for the eye, with colors that change within a block."""
    small = random.integers(0, 256, (size[1] // 3 + 1, size[0] // 3 + 1, channels), np.uint8)
    mode = {1: "L", 3: "RGB", 4: "CMYK"}[channels]
    picture = Image.fromarray(small[..., 0] if channels == 1 else small, mode)
    return picture.resize(size, Image.Resampling.BICUBIC)


def jpg(size=(35, 27), channels=3, after_start=b"", **options):
    file = io.BytesIO()
    noise(size, channels).save(file, "JPEG", **options)
    return file.getvalue()[:2] + after_start + file.getvalue()[2:]


def cjpeg(*options, size=(35, 27)):
    file = io.BytesIO()
    noise(size).save(file, "PPM")
    return subprocess.run(("cjpeg", *options), input=file.getvalue(), check=True,
                          capture_output=True).stdout


XMP = b"http://ns.adobe.com/xap/1.0/\0"


def xmp(orientation, form):
    return (b'<r tiff:Orientation="%d"/>' if form == "attribute" else
            b"<r>tiff:Orientation<tiff:Orientation>%d</tiff:Orientation></r>") % orientation


def profile(orientation, spaces=0):
    data = EXIF + exif(orientation)
    return b"\nexif\n%8d\n" % len(data) + data.hex().encode() + b" " * spaces + b"\n"


def turned():
    size = (7, 4)
    for orientation in range(10):
        yield f"exif{orientation}.jpg", jpg(size, after_start=app1(EXIF + exif(orientation)))
    yield "exif6_big_endian.jpg", jpg(size, after_start=app1(EXIF + exif(6, ">")))
    yield "exif6_swapped_magic.jpg", jpg(size, after_start=app1(EXIF + exif(6, magic=42 << 8)))
    yield "exif6_long.jpg", jpg(size, after_start=app1(EXIF + exif(6, kind=4)))
    yield "exif6_byte.jpg", jpg(size, after_start=app1(EXIF + exif(6, kind=1)))
    yield "exif6_twice.jpg", jpg(size, after_start=app1(2 * EXIF + exif(6)))
    yield "exif6_in_two.jpg", jpg(
        size, after_start=app1(EXIF + exif(6)[:12]) + app1(EXIF + exif(6)[12:]))
    yield "exif6_cut.jpg", jpg(size, after_start=app1(EXIF + exif(6)[:-9]))
    yield "exif_of_something.jpg", jpg(size, after_start=app1(EXIF + b"nothing that is known"))
    for form in ("attribute", "element"):
        yield f"xmp8_{form}.jpg", jpg(size, after_start=app1(XMP + xmp(8, form)))
        yield f"xmp8_{form}.png", png(
            size=size, after=chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(8, form)))
    yield "xmp8_exif3.jpg", jpg(
        size, after_start=app1(XMP + xmp(8, "element")) + app1(EXIF + exif(3)))
    yield "xmp8_compressed.png", png(
        size=size, before=chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" +
                                zlib.compress(xmp(8, "element"))))
    yield "exif5.png", png(size=size, before=chunk(b"eXIf", exif(5)))
    yield "exif7_behind.png", png(size=size, after=chunk(b"eXIf", exif(7, ">")))
    yield "profile6.png", png(
        size=size, before=chunk(b"tEXt", b"Raw profile type exif\0" + profile(6)))
    yield "profile6_compressed.png", png(
        size=size, after=chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(6))))


def jpgs():
    for options in ({}, {"progressive": True}, {"optimize": True}, {"quality": 10},
                    {"restart_marker_blocks": 2}, {"restart_marker_rows": 1}, {"keep_rgb": True}):
        yield "_".join(["rgb"] + list(options)), jpg(**options)
    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        yield "chroma_" + subsampling.replace(":", ""), jpg(subsampling=subsampling)
    for factors in ("4x1", "1x2", "1x4", "4x2", "3x1", "2x1,1x2", "1x1,2x2"):
        yield "factors_" + factors.replace(",", "_"), cjpeg("-sample", factors)
    yield "arithmetic", cjpeg("-arithmetic")
    yield "arithmetic_progressive", cjpeg("-arithmetic", "-progressive")
    for size in ((1, 1), (1, 20), (20, 1), (8, 8), (17, 16)):
        yield f"{size[0]}x{size[1]}", jpg(size)
    yield "grey", jpg(channels=1)
    yield "grey_progressive", jpg(channels=1, progressive=True)
    cmyk = jpg(channels=4)
    yield "cmyk", cmyk
    yield "cmyk_progressive", jpg(channels=4, progressive=True)
    adobe = cmyk.index(b"\xff\xee\0\x0eAdobe")
    transform = adobe + 4 + 11
    yield "ycck", cmyk[:transform] + b"\2" + cmyk[transform + 1:]
    yield "cmyk_without_adobe", cmyk[:adobe] + cmyk[adobe + 16:]
    for transform in (0, 1):
        yield f"adobe_transform{transform}", jpg(
            after_start=b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes((transform,)))
    yield "comment", jpg(after_start=b"\xff\xfe\0\x06abcd")


def expected(name, data, tensors):
    picture = opened(data)
    white = convert_to_rgb(picture, return_numpy=True)
    tensors[name + ".file"] = np.frombuffer(data, np.uint8)
    tensors[name + ".white"] = white
    if not np.array_equal(white, np.array(picture)):
        tensors[name + ".kept"] = np.array(picture)


def edge_cases():
    tensors = {}
    for name, data in itertools.chain(((name + ".png", data) for name, data in pngs()),
                                      ((name + ".jpg", data) for name, data in jpgs()), turned()):
        assert name + ".file" not in tensors, name
        expected(name, data, tensors)
    # Longer than a mebibyte, which Pillow refuses. Here such a text is left out: the picture is not
    # turned.
    long_text = png(size=(7, 4), before=chunk(
        b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(6, 1 << 20), 9)))
    tensors["long_text.png.file"] = np.frombuffer(long_text, np.uint8)

    black_and_white = 255 * random.integers(0, 2, (47, 61, 3)).astype(np.uint8)
    expected("resize.png", png(size=(61, 47), samples=black_and_white), tensors)
    for filter in (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC):
        for size in ((1, 1), (61, 20), (20, 47), (7, 90), (90, 70), (33, 3), (3, 33), (60, 46)):
            tensors[f"resize.{size[0]}x{size[1]}.{filter.name.lower()}"] = np.array(
                Image.fromarray(black_and_white).resize(size, filter))
    return tensors


def reference():
    tensors = {}
    processors = {"paligemma": SiglipImageProcessorPil(size={"height": 56, "width": 56}),
                  "gemma3": Gemma3ImageProcessorPil(size={"height": 56, "width": 56})}
    square = np.arange(56 * 56).reshape(56, 56, 1).repeat(3, 2) % 256
    values = processors["paligemma"](Image.fromarray(square.astype(np.uint8)), return_tensors="np")
    levels = values["pixel_values"][0, 0].reshape(-1)[:256]
    tensors["levels"] = levels
    for name, data in load_file(FOLDER / "reference.safetensors").items():
        if not name.endswith(".file"):
            continue
        name = name.removesuffix(".file")
        expected(name, data.tobytes(), tensors)
        if name == "large.png":
            del tensors[name + ".white"]
        for kind, processor in processors.items():
            values = processor(opened(data.tobytes()), return_tensors="np")["pixel_values"][0]
            bytes_of = np.searchsorted(levels, values).astype(np.uint8).transpose(1, 2, 0)
            assert np.array_equal(levels[bytes_of].transpose(2, 0, 1), values), name
            tensors[f"{name}.{kind}"] = np.ascontiguousarray(bytes_of)
    return tensors


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    save_file(edge_cases(), FOLDER / "edge_cases.safetensors")
    save_file(reference(), FOLDER / "reference.safetensors")
