/*-------------------------------------------------------------------------
 *
 * zheap_page_problem.h
 *	  What is wrong with a page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_PAGE_PROBLEM_H
#define ZHEAP_PAGE_PROBLEM_H

#include "zheap/format/zheap_page.h"

/* ERROR (data corrupted; relation, block): what is wrong with the page */
pg_noreturn extern void zheap_page_report(Relation rel, BlockNumber block,
										  Page page);

/* The same unless it is valid. */
static inline void
zheap_page_check(Relation rel, BlockNumber block, Page page)
{
	if (unlikely(!zheap_page_is_valid(page)))
		zheap_page_report(rel, block, page);
}

/* what is wrong with a page's structure (palloc'd text), or NULL; Z3, Z12 to Z14 */
extern char *zheap_page_problem(Page page);

/* assert builds: ERROR if the private copy that "work" leaves isn't sound */
#ifdef USE_ASSERT_CHECKING
extern void zheap_page_assert_sound(Page page, BlockNumber block,
									const char *work);
#else
#define zheap_page_assert_sound(page, block, work) ((void) 0)
#endif

#endif							/* ZHEAP_PAGE_PROBLEM_H */
