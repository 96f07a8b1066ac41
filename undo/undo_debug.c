/*-------------------------------------------------------------------------
 *
 * undo_debug.c
 *	  Crash points for tests; empty without assertions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "undo/undo_debug.h"

#ifdef USE_ASSERT_CHECKING

#define CRASH_POINT_FILE	"zheap_crash_point"

/* May be called anywhere, in critical sections too: allocates nothing. */
void
undo_debug_crash_point(const char *point)
{
	char		wanted[64];
	int			fd = open(CRASH_POINT_FILE, O_RDONLY, 0);
	ssize_t		len;

	if (likely(fd < 0))
		return;
	len = read(fd, wanted, sizeof(wanted) - 1);
	close(fd);
	if (len <= 0)
		return;
	wanted[len] = '\0';
	if (strcmp(wanted, point) != 0 || unlink(CRASH_POINT_FILE) != 0)
		return;
	/* the postmaster takes this exit code for a crash */
	_exit(2);
}

#endif							/* USE_ASSERT_CHECKING */
