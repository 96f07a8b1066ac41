/*-------------------------------------------------------------------------
 *
 * undo_debug.c
 *	  Points for tests; empty without assertions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "storage/pmsignal.h"

#include "undo/undo_debug.h"

#ifdef USE_ASSERT_CHECKING

#define POINT_FOLDER	"zheap_points"

static bool read_order(const char *path, char *word, int size);
static void wait_until_removed(const char *path, bool may_fail);

/*
 * Do what a test ordered for a point.  Allocates nothing.  Raises an error
 * only if may_fail.
 */
void
undo_debug_point(const char *name, bool may_fail)
{
	char		path[MAXPGPATH];
	char		taken[MAXPGPATH + 3];
	char		word[64];
	int			save_errno = errno;

	if (likely(access(POINT_FOLDER, F_OK) != 0))
	{
		errno = save_errno;
		return;
	}
	snprintf(path, sizeof(path), POINT_FOLDER "/%s", name);
	snprintf(taken, sizeof(taken), "%s.at", path);

	/* of several processes that come by, one gets the file */
	if (read_order(path, word, sizeof(word)) && rename(path, taken) == 0)
	{
		if (strcmp(word, "wait") == 0)
			wait_until_removed(taken, may_fail);
		else
		{
			unlink(taken);
			/* the postmaster takes this exit code for a crash */
			if (strcmp(word, "crash") == 0)
				_exit(2);
			if (strcmp(word, "error") == 0 && may_fail)
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("error at point \"%s\"", name)));
		}
	}
	errno = save_errno;
}

/* The first word of an order, if it is meant for this process. */
static bool
read_order(const char *path, char *word, int size)
{
	int			fd = open(path, O_RDONLY, 0);
	ssize_t		len;
	int			pid;
	int			words;

	if (fd < 0)
		return false;
	len = read(fd, word, size - 1);
	close(fd);
	if (len <= 0)
		return false;
	word[len] = '\0';
	pid = MyProcPid;
	words = sscanf(word, "%*s %d", &pid);
	word[strcspn(word, " \n")] = '\0';
	return words <= 1 && pid == MyProcPid;
}

/* A process whose test has gone away goes on after three minutes. */
static void
wait_until_removed(const char *path, bool may_fail)
{
	for (int i = 0; i < 180 * 200 && access(path, F_OK) == 0; i++)
	{
		if (may_fail)
			CHECK_FOR_INTERRUPTS();
		if (IsUnderPostmaster && !PostmasterIsAlive())
			_exit(1);
		pg_usleep(5000);
	}
}

#endif							/* USE_ASSERT_CHECKING */
