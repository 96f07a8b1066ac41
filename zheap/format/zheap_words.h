/*-------------------------------------------------------------------------
 *
 * zheap_words.h
 *	  Bytes compared by words of eight, wherever they lie.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_WORDS_H
#define ZHEAP_WORDS_H

#include "port/pg_bitutils.h"

/* the exclusive or of the eight bytes at a and at b */
static inline uint64
zheap_words_differ(const char *a, const char *b)
{
	uint64		words[2];

	memcpy(&words[0], a, sizeof(uint64));
	memcpy(&words[1], b, sizeof(uint64));
	return words[0] ^ words[1];
}

/* which byte of a word, in memory, is the first that isn't 0; there is one */
static inline int
zheap_words_first_set(uint64 word)
{
	Assert(word != 0);
#ifdef WORDS_BIGENDIAN
	return 7 - pg_leftmost_one_pos64(word) / 8;
#else
	return pg_rightmost_one_pos64(word) / 8;
#endif
}

/* which is the last */
static inline int
zheap_words_last_set(uint64 word)
{
	Assert(word != 0);
#ifdef WORDS_BIGENDIAN
	return 7 - pg_rightmost_one_pos64(word) / 8;
#else
	return pg_leftmost_one_pos64(word) / 8;
#endif
}

/* is any of its bytes 0 */
static inline bool
zheap_words_has_zero(uint64 word)
{
	return ((word - UINT64CONST(0x0101010101010101)) & ~word &
			UINT64CONST(0x8080808080808080)) != 0;
}

/* a bit for each byte of a word that is 0, the lowest for the first in memory */
static inline uint64
zheap_words_zero_bytes(uint64 word)
{
	const uint64 low = UINT64CONST(0x7F7F7F7F7F7F7F7F);
	uint64		zero = ~(((word & low) + low) | word | low);

	/* the top bit of each byte that is 0 is set: all of them to the top byte */
#ifdef WORDS_BIGENDIAN
	return ((zero >> 7) * UINT64CONST(0x8040201008040201)) >> 56;
#else
	return ((zero >> 7) * UINT64CONST(0x0102040810204080)) >> 56;
#endif
}

/* the most bytes that zheap_words_equal_bytes() compares */
#define ZHEAP_WORDS_BITS	64

/*
 * Which of n bytes are equal, n at most ZHEAP_WORDS_BITS: a bit for each,
 * the lowest for the first.
 */
static inline uint64
zheap_words_equal_bytes(const char *a, const char *b, Size n)
{
	uint64		equal = 0;
	Size		i = 0;

	Assert(n <= ZHEAP_WORDS_BITS);
	if (n < sizeof(uint64))
	{
		for (; i < n; i++)
			equal |= (uint64) (a[i] == b[i]) << i;
		return equal;
	}
	for (; i + sizeof(uint64) <= n; i += sizeof(uint64))
		equal |= zheap_words_zero_bytes(zheap_words_differ(a + i, b + i)) << i;
	/* the last ones, some of them once more */
	if (i < n)
	{
		i = n - sizeof(uint64);
		equal |= zheap_words_zero_bytes(zheap_words_differ(a + i, b + i)) << i;
	}
	return equal;
}

/* how many bytes from a and from b on are equal, at most max */
static inline Size
zheap_words_equal(const char *a, const char *b, Size max)
{
	Size		n = 0;

	for (; max - n >= sizeof(uint64); n += sizeof(uint64))
	{
		uint64		differ = zheap_words_differ(a + n, b + n);

		if (differ != 0)
			return n + zheap_words_first_set(differ);
	}
	while (n < max && a[n] == b[n])
		n++;
	return n;
}

/* how many bytes before a and before b are equal, at most max */
static inline Size
zheap_words_equal_before(const char *a, const char *b, Size max)
{
	Size		n = 0;

	while (max - n >= sizeof(uint64))
	{
		uint64		differ;

		n += sizeof(uint64);
		differ = zheap_words_differ(a - n, b - n);
		if (differ != 0)
			return n - 1 - zheap_words_last_set(differ);
	}
	for (; n < max; n++)
	{
		const char *x = a - n;
		const char *y = b - n;

		if (x[-1] != y[-1])
			break;
	}
	return n;
}

#endif							/* ZHEAP_WORDS_H */
