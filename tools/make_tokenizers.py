#!/usr/bin/env python3
"""Trains small tokenizers of each kind and stores what Hugging Face's library makes of hard texts.

    python3 tools/make_tokenizers.py TINYSHAKESPEARE.txt tests/data/text

Needs the tokenizers package (0.23.3 was used). The tokenizers are our own, trained on a text in the
public domain and on the hard texts below; what is stored beside them in cases.json are the texts as
hexadecimal bytes, their numbers, and of the whole training text the count and SHA-256 of the numbers
as 32-bit little endian words.
"""

import hashlib
import json
import pathlib
import struct
import sys

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

HARD = [
    "", " ", "  ", "   x", "x   ", "\n", "\n\n\n", " \n \n x", "\t\tif (a) {\n\t\t\treturn;\n\t\t}\n",
    "Hello world", " Hello  world ", "don't can't WE'LL I'M he'd they've you're 's'S'ſ 'RE'vE'lL",
    "1 12 123 1234 12345 1,234.5 ٣٤٥ ½ Ⅷ ²³ 10x x10", "a_b __init__ foo->bar != ++i; //",
    "naïve café Ελληνικά русский עברית العربية हिन्दी ไทย", "日本語のテキスト。漢字かな交じり文、中文字符 한국어",
    "e\u0301 a\u0308\u0323 n\u0303 \u0301\u0301 Z\u0351\u036b\u0343\u036a\u0302", "👩‍👩‍👧‍👦 👍🏽 🇩🇪 😀😀 ☃️ x👍y",
    "\u00a0nbsp\u2003em\u3000ideographic\u200bzero\u2028line\u2029para\u0085nel \ufeffbom",
    "\x00\x01\x1f\x7f\x80".encode("latin-1").decode("latin-1"), "\r\n\r\nwindows\r\nlines\r\n",
    "a\n\nb\n \nc \n\n d", "trailing spaces   \n   leading", "x!\n\ny?\r\nz...\n\n\n  w", "\u2581mark \u2581\u2581two",
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> c<|endoftext|><|endoftext|>", "<|endoftext", "<s> </s> <unk><s>x</s>",
    "[MASK] left   [MASK]   right [MASK]", "<|begin_of_text|>hi<|end_of_text|>", "<extra> <extra", "<0x41> <0xFF>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "thethethethethethethethethethethethethethethethethethethethethetheandandandandandandandandandand",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 \U0001e900 \U000105c0 \U0010ffff \ue000 \ufffd", "Ω≈ç√∫˜µ≤≥÷ ¡™£¢∞§¶•ªº", "'", "''s", "' s", "'x", "'l", "-'s 's",
    "mixedCASE UPPER lower Title", "http://example.org/a?b=c&d=%20#e", "  \t \u3000 \n\t x", "１２３ ａｂｃ", "x\u0300\u0301y 1\u03002",
]

# Bytes that are no UTF-8: the library gets Python's replacement of them.
BROKEN = [
    b"\xff", b"a\x80b", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x\xe2\x82\xac", b"\xf0\x9f\x98", b"\xf0\x9f\x98\xf0",
    b"\xed\xa0\x80\xed\xb0\x80", b"\xc0\xaf\xe0\x80\xaf", b"\xf4\x90\x80\x80 \xf5", b"ok \xfe\xff ok\xe2", b"\xf1\x80\x80\xe1\x80\xc2",
]


def byte_level(regex, pattern=None):
    split = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    return pre_tokenizers.Sequence(split + [level]) if split else level


def train_byte_level(texts, special, pre, size=700, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def make_gpt2(texts):
    t = train_byte_level(texts, ["<|endoftext|>"], byte_level(True))
    t.add_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False, special=True),
                  AddedToken("<extra>", normalized=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def make_prefixed(texts):
    t = train_byte_level(texts, ["<|endoftext|>"], pre_tokenizers.ByteLevel(add_prefix_space=True), 450)
    return t


def make_llama3(texts, pattern=LLAMA3, ignore_merges=True):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    t = train_byte_level(texts, special, byte_level(False, pattern), 800, ignore_merges)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B",
                                      special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    return t


def make_llama2(texts, kind):
    """`legacy`: a normaliser and no words. `first`: Metaspace. `whole`: merges over spaces."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=kind != "whole")
    lines = [piece for text in texts for piece in text.split("\n") if piece and "\0" not in piece]
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=620, special_tokens=special, show_progress=False,
                                                     limit_alphabet=120, max_token_length=16))
    form = json.loads(t.to_str())
    form["added_tokens"] = form["added_tokens"][:3]
    form["post_processor"] = json.loads(processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]).__getstate__())
    if kind == "legacy" or kind == "whole":
        form["normalizer"] = json.loads(normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]).__getstate__())
        form["pre_tokenizer"] = None
    if kind == "first":
        form["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    return Tokenizer.from_str(json.dumps(form))


def make_unknown(texts):
    """Characters, no fallback: what is unknown becomes <unk>, each apart."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=200, special_tokens=["<unk>"], show_progress=False,
                                                     limit_alphabet=60))
    return t


def main():
    corpus = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    folder = pathlib.Path(sys.argv[2])
    texts = [corpus[:200000]] + HARD * 3
    kinds = {
        "gpt2": make_gpt2(texts), "prefixed": make_prefixed(texts), "llama3": make_llama3(texts),
        "qwen2": make_llama3(texts, QWEN2, False), "llama2": make_llama2(texts, "legacy"),
        "llama2_first": make_llama2(texts, "first"), "llama2_whole": make_llama2(texts, "whole"),
        "unknown": make_unknown(texts),
    }
    raw = [text.encode("utf-8", "surrogatepass") for text in HARD] + BROKEN
    cases = {"tokenizers": tokenizers.__version__, "texts": [text.hex() for text in raw], "kinds": {}}
    folder.mkdir(parents=True, exist_ok=True)
    for name, t in kinds.items():
        text = json.dumps(json.loads(t.to_str()), ensure_ascii=True, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n", encoding="ascii")
        t = Tokenizer.from_str(text)
        whole = t.encode(corpus, add_special_tokens=False).ids
        digest = hashlib.sha256(struct.pack(f"<{len(whole)}I", *whole)).hexdigest()
        cases["kinds"][name] = {
            "prefix": t.encode("", add_special_tokens=True).ids,
            "ids": [t.encode(b.decode("utf-8", "replace"), add_special_tokens=False).ids for b in raw],
            "corpus_count": len(whole), "corpus_sha256": digest}
    lines = json.dumps(cases, separators=(",", ":")).replace('],"', '],\n"').replace('],[', '],\n[')
    (folder / "cases.json").write_text(lines + "\n", encoding="ascii")


main()
