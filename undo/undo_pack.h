/*-------------------------------------------------------------------------
 *
 * undo_pack.h
 *	  Numbers in as few bytes as they need, for WAL and undo records.
 *
 * Seven bits a byte, the low ones first, the high bit says that more follow.
 * Differences that may have either sign go through undo_zigzag() before.
 *
 * Undo record pointers are packed relative to another one ("from", which the
 * reader knows, too), and short when both are of the same log or of logs that
 * grow together:
 *
 *	15 13 12          0
 *	+----+-------------+-------------------+-----------------------------+
 *	|form|   offset    | log, packed, if   | difference of the blocks,   |
 *	| 3  |     13      | it is not from's  | zigzag, "n" bytes, low first|
 *	+----+-------------+-------------------+-----------------------------+
 *	 form n (0 .. 3): the same log; 3 + n (n = 1 .. 3): another log;
 *	 7: offset 0, the pointer follows as it is, u64; offset 1, it is null
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_PACK_H
#define UNDO_PACK_H

#include "undo/undo_defs.h"

/* bytes of the longest number, and of the longest undo record pointer */
#define UNDO_MAX_PACKED		10
#define UNDO_MAX_PACKED_URP	10

static inline int
undo_packed_size(uint64 value)
{
	int			n = 1;

	while (value >= 0x80)
	{
		value >>= 7;
		n++;
	}
	return n;
}

static inline char *
undo_pack(char *p, uint64 value)
{
	while (value >= 0x80)
	{
		*p++ = (char) ((value & 0x7F) | 0x80);
		value >>= 7;
	}
	*p++ = (char) value;
	return p;
}

/* The byte behind the number, or NULL if it isn't complete before end. */
static inline const char *
undo_unpack(const char *p, const char *end, uint64 *value)
{
	const uint8 *b = (const uint8 *) p;
	uint64		result = 0;

	/* most have one byte, or at most three */
	if (likely(p < end && b[0] < 0x80))
	{
		*value = b[0];
		return p + 1;
	}
	if (likely(end - p >= 3))
	{
		if (b[1] < 0x80)
		{
			*value = (b[0] & 0x7F) | (uint32) b[1] << 7;
			return p + 2;
		}
		if (b[2] < 0x80)
		{
			*value = (b[0] & 0x7F) | (uint32) (b[1] & 0x7F) << 7 |
				(uint32) b[2] << 14;
			return p + 3;
		}
	}
	for (int shift = 0; shift < 64 && p < end; shift += 7)
	{
		uint8		byte = (uint8) *p++;

		result |= ((uint64) (byte & 0x7F)) << shift;
		if ((byte & 0x80) == 0)
		{
			*value = result;
			return p;
		}
	}
	return NULL;
}

/*
 * Parts of a fixed width, and packed numbers of 16 bits at most.  As above; and
 * what follows a part that was cut off is cut off, too: p may be NULL.
 */
static inline char *
undo_pack_u16(char *p, uint16 value)
{
	memcpy(p, &value, sizeof(uint16));
	return p + sizeof(uint16);
}

static inline const char *
undo_unpack_u16(const char *p, const char *end, uint16 *value)
{
	if (p == NULL || end - p < (ptrdiff_t) sizeof(uint16))
		return NULL;
	memcpy(value, p, sizeof(uint16));
	return p + sizeof(uint16);
}

static inline const char *
undo_unpack_u8(const char *p, const char *end, uint8 *value)
{
	if (p == NULL || p >= end)
		return NULL;
	*value = (uint8) *p;
	return p + 1;
}

static inline const char *
undo_unpack_small(const char *p, const char *end, uint16 *value)
{
	uint64		wide = 0;

	if (p != NULL)
		p = undo_unpack(p, end, &wide);
	if (wide > PG_UINT16_MAX)
		return NULL;
	*value = (uint16) wide;
	return p;
}

/* small numbers of either sign become small numbers: 0, -1, 1, -2, ... */
static inline uint64
undo_zigzag(uint64 from, uint64 to)
{
	int64		diff = (int64) (to - from);

	return diff < 0 ? ((uint64) -(diff + 1) << 1) | 1 : (uint64) diff << 1;
}

static inline uint64
undo_unzigzag(uint64 from, uint64 packed)
{
	uint64		half = packed >> 1;

	return (packed & 1) ? from - half - 1 : from + half;
}

/* ----------------------------------------------------------------
 *	undo record pointers
 * ----------------------------------------------------------------
 */

#define UNDO_URP_OFFSET_BITS	13
#define UNDO_URP_RAW			7
#define UNDO_URP_RAW_VALUE		0
#define UNDO_URP_RAW_NULL		1

/* as "from": the reader will know it, the writer doesn't yet */
#define UNDO_URP_UNKNOWN		(~(UndoRecPtr) 0)

/*
 * The form for urp, and what follows the first two bytes: the log if form > 3,
 * and nbytes bytes of diff.
 */
static inline uint8
undo_urp_form(UndoRecPtr from, UndoRecPtr urp, uint64 *diff, int *nbytes)
{
	bool		same_log = UndoRecPtrGetLog(from) == UndoRecPtrGetLog(urp);

	*diff = undo_zigzag(UndoRecPtrGetBlock(from), UndoRecPtrGetBlock(urp));
	if (*diff == 0 && same_log)
		*nbytes = 0;
	else if (*diff <= 0xFF)
		*nbytes = 1;
	else if (*diff <= 0xFFFF)
		*nbytes = 2;
	else
		*nbytes = 3;
	if (!UndoRecPtrIsValid(urp) || from == UNDO_URP_UNKNOWN ||
		*diff > 0xFFFFFF ||
		(UndoRecPtrGetOffset(urp) >> UNDO_URP_OFFSET_BITS) != 0)
		return UNDO_URP_RAW;
	return same_log ? *nbytes : 3 + *nbytes;
}

static inline int
undo_packed_urp_size(UndoRecPtr from, UndoRecPtr urp)
{
	uint64		diff;
	int			nbytes;
	uint8		form = undo_urp_form(from, urp, &diff, &nbytes);

	if (form == UNDO_URP_RAW)
		return UndoRecPtrIsValid(urp) ? 2 + sizeof(UndoRecPtr) : 2;
	return 2 + nbytes +
		(form > 3 ? undo_packed_size(UndoRecPtrGetLog(urp)) : 0);
}

static inline char *
undo_pack_urp(char *p, UndoRecPtr from, UndoRecPtr urp)
{
	uint64		diff;
	int			nbytes;
	uint8		form = undo_urp_form(from, urp, &diff, &nbytes);

	if (likely(form == 0))
		return undo_pack_u16(p, UndoRecPtrGetOffset(urp));
	if (form == UNDO_URP_RAW)
	{
		p = undo_pack_u16(p, (UNDO_URP_RAW << UNDO_URP_OFFSET_BITS) |
						  (UndoRecPtrIsValid(urp) ? UNDO_URP_RAW_VALUE :
						   UNDO_URP_RAW_NULL));
		if (!UndoRecPtrIsValid(urp))
			return p;
		memcpy(p, &urp, sizeof(UndoRecPtr));
		return p + sizeof(UndoRecPtr);
	}
	Assert(form <= 6 && nbytes <= 3);
	p = undo_pack_u16(p, (form << UNDO_URP_OFFSET_BITS) |
					  UndoRecPtrGetOffset(urp));
	if (form > 3)
		p = undo_pack(p, UndoRecPtrGetLog(urp));
	for (; nbytes > 0; nbytes--, diff >>= 8)
		*p++ = (char) (diff & 0xFF);
	return p;
}

/* The byte behind the pointer, or NULL if it isn't complete before end. */
static inline const char *
undo_unpack_urp(const char *p, const char *end, UndoRecPtr from,
				UndoRecPtr *urp)
{
	uint16		head = 0;
	uint64		log = UndoRecPtrGetLog(from);
	uint64		diff = 0;
	int			n;

	Assert(UndoRecPtrGetBlock(from) < (uint32) 1 << UNDO_BLOCK_BITS);
	p = undo_unpack_u16(p, end, &head);
	if (p == NULL)
		return NULL;
	n = head >> UNDO_URP_OFFSET_BITS;
	if (likely(n == 0))
	{
		/* of the same page */
		*urp = (from & ~(UndoRecPtr) ((1 << UNDO_OFFSET_BITS) - 1)) | head;
		return p;
	}
	head &= (1 << UNDO_URP_OFFSET_BITS) - 1;
	if (unlikely(n == UNDO_URP_RAW))
	{
		*urp = InvalidUndoRecPtr;
		if (head == UNDO_URP_RAW_NULL)
			return p;
		if (end - p < (ptrdiff_t) sizeof(UndoRecPtr))
			return NULL;
		memcpy(urp, p, sizeof(UndoRecPtr));
		return p + sizeof(UndoRecPtr);
	}
	if (n > 3)
	{
		n -= 3;
		p = undo_unpack(p, end, &log);
		if (p == NULL)
			return NULL;
	}
	if (end - p < n)
		return NULL;
	Assert(n <= 3);
	if (n > 0)
		diff = (uint8) p[0];
	if (n > 1)
		diff |= (uint32) (uint8) p[1] << 8;
	if (n > 2)
		diff |= (uint32) (uint8) p[2] << 16;
	*urp = MakeUndoRecPtr(log,
						  undo_unzigzag(UndoRecPtrGetBlock(from), diff) &
						  (((uint64) 1 << UNDO_BLOCK_BITS) - 1), head);
	return p + n;
}

#endif							/* UNDO_PACK_H */
