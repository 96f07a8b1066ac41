"""The fields of each kind of page, and what damage may make of each.

Pages are read as zheap/format/zheap_page.h, zheap_undo.h and undo/log/undo_page.h
picture them.  fields_of() lists the fields of one page; values() says what to
put in the place of a field's value: a pointer to itself, to a neighbour, to
another log, to nowhere; a length or a count of zero, one too large, one too
small, the largest; each bit of flags.  A packed number keeps its width: what
needs less is padded, what needs more is left out.
"""

PAGE = 8192
TABLE, UNDO, CONTROL, GLOBAL = "table", "undo", "control", "global"
MAGICS = {0x5A48554E: UNDO, 0x5A484C43: CONTROL, 0x5A484743: GLOBAL}
BLOCK_BITS, OFFSET_BITS = 31, 15
SPECIAL = PAGE - 40  # of the store's pages

# kinds and flags of undo records (zheap_undo.h)
OPEN_INSERT, INSERT_SET, UPDATE, DELETE, MOVE, LOCK, SPILL, LIST = range(1, 9)
KINDS = ("", "insert", "insert", "update", "delete", "move", "lock", "spill", "list")
TENURE_START, FAMILY, BASE, OLD_MASK, PLAIN, TOP_BIT = 1, 2, 4, 0x18, 0x40, 0x80
OLD_LINK, OLD_ELSEWHERE = 0x10, 0x18
HAS_SPILL, HAS_SHARED = 0x01, 0x10		# of table pages


def make_urp(log, block, offset):
    return log << (BLOCK_BITS + OFFSET_BITS) | block << OFFSET_BITS | offset


class Field:
    """Bytes at..end of a page that mean one thing.  kind: number, bits, urp,
    fxid, block; packed: "number", "zigzag" (from base), "urp" (from base), or
    None for plain little-endian bytes; shift, width: bits within these."""

    def __init__(self, name, kind, at, end, **more):
        self.name, self.kind, self.at, self.end = name, kind, at, end
        self.packed = more.get("packed")
        self.base = more.get("base", 0)
        self.shift = more.get("shift", 0)
        self.width = more.get("width", 8 * (end - at))
        self.value = more.get("value", 0)
        self.near = more.get("near", ())    # neighbours' values

    def encode(self, page, value):
        """Bytes with this value, of the same length; None if there are none."""
        size = self.end - self.at
        if self.packed == "number":
            return pad(value, size)
        if self.packed == "zigzag":
            diff = (value - self.base) & (2 ** 64 - 1)
            if diff >= 2 ** 63:
                diff = ((2 ** 64 - diff - 1) << 1) | 1
            else:
                diff <<= 1
            return pad(diff, size)
        if self.packed == "urp":
            return pack_urp(value, self.base, size)
        if value < 0 or value >= 1 << self.width:
            return None
        whole = int.from_bytes(page[self.at:self.end], "little")
        mask = ((1 << self.width) - 1) << self.shift
        return ((whole & ~mask) | value << self.shift).to_bytes(size, "little")


def pad(value, size):
    if value < 0 or value >= 1 << min(7 * size, 64):
        return None
    out = bytearray()
    for i in range(size):
        out.append((value & 0x7F) | (0x80 if i < size - 1 else 0))
        value >>= 7
    return bytes(out)


def pack_urp(urp, base, size):
    log, block = urp >> (BLOCK_BITS + OFFSET_BITS), urp >> OFFSET_BITS & (2 ** BLOCK_BITS - 1)
    offset = urp & (2 ** OFFSET_BITS - 1)
    if size == 10:
        return (7 << 13).to_bytes(2, "little") + urp.to_bytes(8, "little")
    if urp == 0:
        return (7 << 13 | 1).to_bytes(2, "little") if size == 2 else None
    if offset >> 13:
        return None
    diff = block - (base >> OFFSET_BITS & (2 ** BLOCK_BITS - 1))
    diff = diff << 1 if diff >= 0 else ((-diff - 1) << 1) | 1
    same = log == base >> (BLOCK_BITS + OFFSET_BITS)
    for nbytes in range(0, 4) if same else range(1, 4):
        if diff >= 1 << (8 * nbytes):
            continue
        logs = b"" if same else pad(log, 1)
        if logs is None or 2 + len(logs) + nbytes != size:
            continue
        form = nbytes if same else 3 + nbytes
        return ((form << 13 | offset).to_bytes(2, "little") + logs +
                diff.to_bytes(nbytes, "little"))
    return None


def u(page, at, size):
    return int.from_bytes(page[at:at + size], "little")


def plain(name, kind, page, at, size, **more):
    value = u(page, at, size)
    if "shift" in more:
        value = value >> more["shift"] & ((1 << more["width"]) - 1)
    return Field(name, kind, at, at + size, value=value, **more)


def header_fields(page):
    return [plain("pd_lsn", "number", page, 0, 8),
            plain("pd_flags", "bits", page, 10, 2, shift=0, width=4)] + \
        [plain(name, "number", page, at, 2, near=(u(page, 12, 2), u(page, 14, 2), u(page, 16, 2)))
         for name, at in (("pd_lower", 12), ("pd_upper", 14), ("pd_special", 16),
                          ("pd_pagesize_version", 18))] + \
        [plain("pd_prune_xid", "fxid", page, 20, 4)]


# ---- table pages

def table_fields(page):
    out = header_fields(page)
    opaque = PAGE - 8
    nslots, flags = page[opaque + 3], u(page, opaque + 4, 2)
    out += [plain("magic", "number", page, opaque, 2), plain("version", "number", page, opaque + 2, 1),
            plain("nslots", "number", page, opaque + 3, 1),
            plain("page flags", "bits", page, opaque + 4, 2, shift=0, width=7),
            plain("unused", "number", page, opaque + 6, 2)]
    special = u(page, 16, 2)
    urps = [u(page, special + 16 * i + 8, 8) for i in range(nslots)]
    fxids = [u(page, special + 16 * i, 8) for i in range(nslots)]
    places = [("xact slot", special + 16 * i) for i in range(nslots)]
    at = special + 16 * nslots
    for name, bit in (("shared slot", HAS_SHARED), ("spill field", HAS_SPILL)):
        if flags & bit:
            places.append((name, at))
            fxids.append(u(page, at, 8))
            urps.append(u(page, at + 8, 8))
            at += 16
    for name, at in places:
        out += [plain(name + " fxid", "fxid", page, at, 8, near=fxids),
                plain(name + " flags", "bits", page, at, 8, shift=60, width=4),
                plain(name + " urp", "urp", page, at + 8, 8, near=urps)]
    for off in range((u(page, 12, 2) - 24) // 4):
        out += line_fields(page, 24 + 4 * off, special)
    return out


def line_fields(page, at, special):
    word = u(page, at, 4)
    off, kind, size = word & 0x7FFF, word >> 15 & 3, word >> 17
    other = u(page, at + 4 if at + 4 < u(page, 12, 2) else 24, 4)
    out = [plain("lp_off", "number", page, at, 4, shift=0, width=15,
                 near=(other & 0x7FFF, special - 1, special)),
           plain("lp_flags", "bits", page, at, 4, shift=15, width=2),
           plain("lp_len", "number", page, at, 4, shift=17, width=15,
                 near=(special - off + 1, 4, 5, 21))]
    if kind != 1 or size < 5 or off + size > special:
        return out
    out += [plain("row xact slot", "number", page, off, 1, near=(254, 255)),
            plain("row natts", "number", page, off + 1, 2, shift=0, width=11),
            plain("row flags1", "bits", page, off + 1, 2, shift=11, width=5),
            plain("row flags2", "bits", page, off + 3, 2, shift=0, width=12)]
    if u(page, off + 1, 2) & 0x8000:
        out.append(plain("row slack", "number", page, off + size - 1, 1, near=(size, 254, 255)))
    return out


# ---- pages of the store

class Reader:
    """Fields of an undo record, in their order."""

    def __init__(self, page, at, end, out, me):
        self.page, self.at, self.end, self.out, self.me = page, at, end, out, me

    def plain(self, name, kind, size, **more):
        field = plain(name, kind, self.page, self.at, size, **more)
        self.at += size
        self.out.append(field)
        return field.value

    def number(self, name, kind="number", base=None):
        begin, value, shift = self.at, 0, 0
        while True:
            byte = self.page[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if base is not None:
            half = value >> 1
            value = (base - half - 1 if value & 1 else base + half) & (2 ** 64 - 1)
        self.out.append(Field(name, kind, begin, self.at, value=value, base=base or 0,
                              packed="number" if base is None else "zigzag"))
        return value

    def urp(self, name, base):
        begin = self.at
        head = u(self.page, self.at, 2)
        self.at += 2
        n, head = head >> 13, head & 0x1FFF
        log = base >> (BLOCK_BITS + OFFSET_BITS)
        if n == 7:
            value = 0
            if head != 1:
                value = u(self.page, self.at, 8)
                self.at += 8
        else:
            if n > 3:
                n -= 3
                log = self.page[self.at]
                self.at += 1
            diff = u(self.page, self.at, n)
            self.at += n
            block = base >> OFFSET_BITS & (2 ** BLOCK_BITS - 1)
            block += -(diff >> 1) - 1 if diff & 1 else diff >> 1
            value = make_urp(log, block & (2 ** BLOCK_BITS - 1), head)
        self.out.append(Field(name, "urp", begin, self.at, value=value, packed="urp", base=base,
                              near=self.near()))
        return value

    def near(self):
        return (self.me,) + self.neighbours


def undo_fields(page, log, block):
    out = header_fields(page) + opaque_fields(page)
    for at in range(u(page, 14, 2), SPECIAL, 8):
        out += [plain("relation", "number", page, at, 4), plain("database", "number", page, at + 4, 4)]
    at, lower, places, run = 24, u(page, 12, 2), [], 24
    entries = []
    while at < lower:
        head = page[at]
        if head & 0x80:
            entries.append((at, True))
            size = 1 + (8 if head >> 1 & 63 == 63 else 0)
            while page[at + size] >= 0x80:
                size += 1
            at += size + 1
        else:
            entries.append((at, False))
            places.append(at)
            size, shift, p = 0, 0, at + 1
            while True:
                size |= (page[p] & 0x7F) << shift
                shift += 7
                p += 1
                if page[p - 1] < 0x80:
                    break
            at = p + size
    base = u(page, SPECIAL + 16, 8)
    fxid = base
    for at, is_run in entries:
        if is_run:
            run = at
            out += [plain("run relation", "number", page, at, 1, shift=1, width=6),
                    plain("run applied", "bits", page, at, 1, shift=0, width=1),
                    plain("entry kind", "bits", page, at, 1, shift=7, width=1)]
            more = Reader(page, at + 1 + (8 if page[at] >> 1 & 63 == 63 else 0), lower, out, 0)
            fxid = more.number("run fxid", "fxid", base)
        else:
            out += record_fields(page, at, make_urp(log, block, at), fxid, run, places)
    return out


def record_fields(page, at, me, fxid, run, places):
    out = []
    r = Reader(page, at, PAGE, out, me)
    here = me - at
    i = places.index(at)
    r.neighbours = tuple(here + x for x in (places[i - 1], places[(i + 1) % len(places)], run))
    kind, has_chain = page[at] & 0x3F, page[at] & 0x40
    out += [plain("record kind", "number", page, at, 1, shift=0, width=6, near=tuple(range(1, 9))),
            plain("record has chain", "bits", page, at, 1, shift=6, width=1)]
    r.at += 1
    r.number("record length")
    r.number("record back")
    r.number("record block", "block")
    flags = r.plain("record flags", "bits", 1)
    r.number("record offset")
    chain = r.urp((KINDS[kind] if kind < len(KINDS) else "record") + " chain", me) if has_chain else 0
    r.number("cid")
    if flags & TENURE_START and chain:
        r.number("prev_fxid", "fxid", fxid)

    def link(name):
        r.number(name + " fxid", "fxid", fxid)
        r.urp(name + " urp", chain)

    def diff(name):
        r.number(name + " prefix")
        lengths = r.number(name + " lengths")
        if lengths & 1:
            r.number(name + " new length")
        r.at += lengths >> 1
    shared = kind in (DELETE, MOVE, LOCK, LIST) and flags & TOP_BIT and not flags & PLAIN
    if shared and not flags & TENURE_START:
        r.number("below")
    if flags & BASE:
        link("base")
    change = UPDATE <= kind <= MOVE
    copy = change and flags & OLD_MASK == OLD_ELSEWHERE
    if change and not flags & PLAIN:
        r.plain("old header slot", "number", 1)
        r.plain("old header natts", "number", 2, shift=0, width=11)
        r.at -= 2
        r.plain("old header flags1", "bits", 2, shift=11, width=5)
        r.plain("old header flags2", "bits", 2, shift=0, width=12)
        if flags & OLD_MASK >= OLD_LINK:
            link("link")
        if copy:
            r.plain("old block", "block", 4)
            r.plain("old offset", "number", 2)
            missing = r.plain("missing length", "number", 2)
            r.at += missing
    if kind == UPDATE or copy:
        diff("diff")
    if kind == UPDATE and flags & TOP_BIT:
        link("jump")
        r.number("jump span")
        r.plain("jump natts", "number", 2)
        diff("jump diff")
    if kind == MOVE:
        r.plain("new block", "number", 4)
        r.plain("new offset", "number", 2)
    elif kind == INSERT_SET:
        n = r.plain("ranges", "number", 1)
        for _ in range(n):
            r.plain("range first", "number", 2)
            r.plain("range last", "number", 2)
        r.plain("insert flags", "bits", 1, shift=0, width=2)
    elif kind == LOCK:
        r.plain("lock mode", "number", 1)
    elif kind == SPILL:
        n = r.number("entries")
        for _ in range(n):
            r.number("entry offset")
            r.number("entry fxid", "fxid", fxid)
            r.urp("entry urp", 0)
            length = r.number("entry length")
            r.at += length
    elif kind == LIST:
        n, before = r.number("entries"), fxid
        for _ in range(n):
            head = r.number("list entry head")
            before = r.number("list entry fxid", "fxid", before)
            if head & 1:
                r.urp("list entry urp", 0)
    return out


def opaque_fields(page):
    return [plain("magic", "number", page, SPECIAL, 4), plain("version", "number", page, SPECIAL + 4, 2),
            plain("undo page flags", "bits", page, SPECIAL + 6, 2, shift=0, width=2),
            plain("seq", "number", page, SPECIAL + 8, 8),
            plain("base_fxid", "fxid", page, SPECIAL + 16, 8, near=(u(page, SPECIAL + 24, 8),)),
            plain("max_fxid", "fxid", page, SPECIAL + 24, 8, near=(u(page, SPECIAL + 16, 8),)),
            plain("next", "block", page, SPECIAL + 32, 4)]


def control_fields(page):
    return header_fields(page) + opaque_fields(page) + [
        plain("tail", "block", page, 24, 4), plain("head", "block", page, 28, 4),
        plain("head_offset", "number", page, 32, 2), plain("used_blocks", "number", page, 36, 4),
        plain("control seq", "number", page, 40, 8)]


def global_fields(page):
    return header_fields(page) + opaque_fields(page) + [
        plain("U", "fxid", page, 24, 8, near=(u(page, 32, 8),)),
        plain("H", "fxid", page, 32, 8, near=(u(page, 24, 8),)),
        plain("nlogs", "number", page, 40, 4), plain("nunlogged", "number", page, 44, 4)]


# ---- what to do with them

def kind_of(page):
    if page[:PAGE] == bytes(PAGE):
        return None
    if u(page, PAGE - 8, 2) == 0x5A48:
        return TABLE
    return MAGICS.get(u(page, SPECIAL, 4))


def fields_of(page, log=0, block=0):
    kind = kind_of(page)
    if kind == TABLE:
        return table_fields(page)
    if kind == UNDO:
        return undo_fields(page, log, block)
    if kind == CONTROL:
        return control_fields(page)
    return global_fields(page) if kind == GLOBAL else []


def values(field, block, pages):
    """(name, value) of what may stand there instead."""
    v, top = field.value, (1 << 64) - 1 if field.packed else (1 << field.width) - 1
    if field.kind == "bits":
        return [("bit %d" % i, v ^ 1 << i) for i in range(field.width)]
    out = [("zero", 0), ("one more", v + 1), ("one less", v - 1), ("largest", top)]
    if field.kind == "number":
        out += [("twice", 2 * v), ("127", 127), ("16383", 16383)]
    elif field.kind == "block":
        out += [("itself", block), ("the last", pages - 1), ("beyond", pages), ("far beyond", 2 ** 30)]
    elif field.kind == "fxid":
        out += [("special", 2), ("first", 3), ("of the future", v + 100000), ("an epoch later", v + 2 ** 32)]
    elif field.kind == "urp":
        place = v & (2 ** (BLOCK_BITS + OFFSET_BITS) - 1)
        log = v >> (BLOCK_BITS + OFFSET_BITS)
        out += [("other log", (log ^ 1) << (BLOCK_BITS + OFFSET_BITS) | place),
                ("no such log", 9 << (BLOCK_BITS + OFFSET_BITS) | place),
                ("block before", v - (1 << OFFSET_BITS)), ("block behind", v + (1 << OFFSET_BITS)),
                ("control page", log << (BLOCK_BITS + OFFSET_BITS) | 24),
                ("far beyond", make_urp(log, 2 ** 20, 24))]
    out += [("neighbour %d" % i, x) for i, x in enumerate(field.near[:6])]
    return [(name, x) for name, x in out if x != v]
