# Bytes compared by words (zheap_words.h) give what a comparison byte by byte gives:
# all lengths up to ten words, all alignments, differences at each place.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = PostgreSQL::Test::Cluster->new('words');
my ($cc, $include) = map { $node->config_data($_) } '--cc', '--includedir-server';
my $dir = PostgreSQL::Test::Utils::tempdir();
put("$dir/words.c", q{
#include "postgres_fe.h"
#undef printf					/* port.h names that of libpgport */
#include "zheap/format/zheap_words.h"

#define LONGEST 80
#define PAIRS 20				/* differences a second time, up to there */

static long asked, wrong;

static Size
bytes_equal(const char *a, const char *b, Size max)
{
	Size		n = 0;

	while (n < max && a[n] == b[n])
		n++;
	return n;
}

static Size
bytes_equal_before(const char *a, const char *b, Size max)
{
	Size		n = 0;

	while (n < max && *(a - n - 1) == *(b - n - 1))
		n++;
	return n;
}

static void
compare(const char *a, const char *b, Size len)
{
	asked++;
	if (zheap_words_equal(a, b, len) != bytes_equal(a, b, len))
		wrong++;
	if (zheap_words_equal_before(a + len, b + len, len) !=
		bytes_equal_before(a + len, b + len, len))
		wrong++;
	if (len <= ZHEAP_WORDS_BITS)
	{
		uint64		equal = 0;

		for (Size i = 0; i < len; i++)
			equal |= (uint64) (a[i] == b[i]) << i;
		if (zheap_words_equal_bytes(a, b, len) != equal)
			wrong++;
	}
	if (len >= 8)
	{
		uint64		word = zheap_words_differ(a, b);
		Size		first = bytes_equal(a, b, 8);
		bool		zero = false;

		for (int i = 0; i < 8; i++)
			zero = zero || a[i] == b[i];
		if ((word == 0) != (first == 8) || zheap_words_has_zero(word) != zero)
			wrong++;
		if (word != 0 &&
			(zheap_words_first_set(word) != (int) first ||
			 zheap_words_last_set(word) !=
			 7 - (int) bytes_equal_before(a + 8, b + 8, 8)))
			wrong++;
	}
}

int
main(void)
{
	static const unsigned char change[] = {0x01, 0x80, 0xFF};
	static char space[2][LONGEST + 32];

	for (int at = 0; at < 64; at++)
		for (Size len = 0; len <= LONGEST; len++)
		{
			/* what lies around differs, and is equal */
			for (int around = 0; around < 2; around++)
			{
				char	   *a = space[0] + 8 + at / 8;
				char	   *b = space[1] + 8 + at % 8;

				memset(space[0], 'x', sizeof(space[0]));
				memset(space[1], around ? 'x' : 'y', sizeof(space[1]));
				for (Size i = 0; i < len; i++)
					a[i] = b[i] = (char) (i * 37 + len);
				compare(a, b, len);
				for (Size i = 0; i < len; i++)
				{
					a[i] ^= change[i % 3];
					compare(a, b, len);
					for (Size j = i + 1; j < len && len <= PAIRS; j++)
					{
						b[j] ^= change[(i + j) % 3];
						compare(a, b, len);
						b[j] ^= change[(i + j) % 3];
					}
					a[i] ^= change[i % 3];
				}
				/* all bytes but one */
				for (Size i = 0; i < len; i++)
					a[i] ^= change[i % 3];
				for (Size i = 0; i < len; i++)
				{
					a[i] ^= change[i % 3];
					compare(a, b, len);
					a[i] ^= change[i % 3];
				}
				compare(a, b, len);
			}
		}
	printf("%ld asked, %ld wrong\n", asked, wrong);
	return 0;
}
});
plan skip_all => 'no program can be made'
  if system("$cc -O2 -Wall -I$FindBin::RealBin/.. -I$include -o $dir/words $dir/words.c") != 0;
like(scalar `$dir/words`, qr/^[1-9]\d+ asked, 0 wrong$/, 'the same answers as byte by byte');
done_testing();
