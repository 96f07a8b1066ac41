/*-------------------------------------------------------------------------
 *
 * undo_pack.h
 *	  Numbers in as few bytes as they need, for WAL and undo records.
 *
 * Seven bits a byte, the low ones first, the high bit says that more follow.
 * Differences that may have either sign go through undo_zigzag() before.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_PACK_H
#define UNDO_PACK_H

#include "postgres.h"

/* bytes of the longest number */
#define UNDO_MAX_PACKED		10

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
	uint64		result = 0;

	for (int shift = 0; shift < 64 && p < end; shift += 7)
	{
		uint8		b = (uint8) *p++;

		result |= ((uint64) (b & 0x7F)) << shift;
		if ((b & 0x80) == 0)
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

#endif							/* UNDO_PACK_H */
