/*-------------------------------------------------------------------------
 *
 * zheap_page_problem.c
 *	  What is wrong with a page, in words.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufpage.h"
#include "utils/rel.h"

#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_page_problem.h"

void
zheap_page_report(Relation rel, BlockNumber block, Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);

	Assert(!zheap_page_is_valid(page));
	if (PageIsNew(page))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of zheap relation \"%s\" is not initialized",
						block, RelationGetRelationName(rel))));
	if (opaque->magic != ZHEAP_PAGE_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation \"%s\" is not a zheap page",
						block, RelationGetRelationName(rel)),
				 errdetail("Magic number is %04X, expected %04X.",
						   opaque->magic, ZHEAP_PAGE_MAGIC)));
	if (opaque->version != ZHEAP_PAGE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of zheap relation \"%s\" has format version %u, expected %u",
						block, RelationGetRelationName(rel),
						opaque->version, ZHEAP_PAGE_VERSION)));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u of zheap relation \"%s\" has an invalid page header",
					block, RelationGetRelationName(rel)),
			 errdetail("lower %u, upper %u, special %u, %u xact slots, flags %04X.",
					   ((PageHeader) page)->pd_lower,
					   ((PageHeader) page)->pd_upper,
					   ((PageHeader) page)->pd_special,
					   opaque->nslots, opaque->flags)));
}

/* what is wrong with a row's marks STALE and SWEPT, or NULL */
static char *
stale_problem(Page page, OffsetNumber off, const ZTupleHeader *header)
{
	if ((header->flags2 & ZH_STALE) == 0)
		return (header->flags2 & ZH_SWEPT) == 0 ? NULL :
			psprintf("tuple %u is swept but not stale", off);
	if (!ZPageMayHoldStale(page))
		return psprintf("tuple %u is stale but the page has none", off);
	if (PageIsAllVisible(page))
		return psprintf("tuple %u is stale on a page that is all-visible",
						off);
	return NULL;
}

/* what is wrong with a NORMAL pointer and its tuple, or NULL */
static char *
tuple_problem(Page page, OffsetNumber off)
{
	PageHeader	ph = (PageHeader) page;
	ZPageOpaque opaque = ZPageGetOpaque(page);
	ItemId		lp = PageGetItemId(page, off);
	ZTupleHeader header;
	const char *tuple;
	Size		need = ZHEAP_HEADER_SIZE;
	uint16		len;

	Assert(ItemIdIsNormal(lp));
	if (lp->lp_off < ph->pd_upper ||
		lp->lp_off + lp->lp_len > ph->pd_special)
		return psprintf("tuple %u at %u, length %u, is not within %u to %u",
						off, lp->lp_off, lp->lp_len, ph->pd_upper,
						ph->pd_special);
	if (lp->lp_len < ZHEAP_HEADER_SIZE)
		return psprintf("tuple %u has only %u bytes", off, lp->lp_len);

	tuple = (char *) page + lp->lp_off;
	zheap_header_get(tuple, &header);
	len = zheap_page_tuple_len(tuple, lp->lp_len);
	if ((header.natts_flags1 & ZH_SLACK) && len == lp->lp_len)
		return psprintf("tuple %u has an impossible slack", off);
	if (header.natts_flags1 & ZH_HASNULL)
		need += (ZHeaderNatts(&header) + 7) / 8;
	if (len < need)
		return psprintf("tuple %u has %u bytes, its header needs %zu",
						off, len, need);

	if (header.slot == ZXACT_SHARED && ZPageHasShared(page))
	{
		if (ZPageGetShared(page)->fxid_bits == 0)
			return psprintf("tuple %u has the shared xact slot, which has no records",
							off);
		if (ZHeaderReused(&header) != ZH_REUSED_FOREIGN &&
			(!ZHeaderIsEnded(&header) || (header.flags2 & ZH_LOCK_ONLY)))
			return psprintf("tuple %u has the shared xact slot but did not end",
							off);
		return stale_problem(page, off, &header);
	}
	if (header.slot > opaque->nslots)
		return psprintf("tuple %u has xact slot %u of %u",
						off, header.slot, opaque->nslots);
	if (header.slot != 0 &&
		ZXactSlotIsFree(ZPageGetXactSlot(page, header.slot)))
		return psprintf("tuple %u has xact slot %u, which is free",
						off, header.slot);
	if (header.slot == 0 && ZHeaderIsEnded(&header))
		return psprintf("tuple %u was deleted or moved but has no xact slot",
						off);
	return stale_problem(page, off, &header);
}

/* what is wrong with a line pointer of any other kind, or NULL */
static char *
pointer_problem(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);

	Assert(!ItemIdIsNormal(lp));
	if (ItemIdIsRedirected(lp))
	{
		if (!ZItemIdIsSpilled(lp))
			return psprintf("line pointer %u is of no known kind", off);
		if ((ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) == 0)
			return psprintf("line pointer %u is spilled but the page has no spill chain",
							off);
	}
	else if (lp->lp_off != 0 || lp->lp_len != 0)
		return psprintf("line pointer %u is %s but has a body", off,
						ItemIdIsDead(lp) ? "dead" : "unused");
	return NULL;
}

/* what is wrong with the xact slots or the spill field, or NULL */
static char *
xact_slots_problem(Page page)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	int			id;

	if (ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL)
	{
		ZXactSlot	spill = ZPageGetSpill(page);

		if (spill->fxid_bits < FirstNormalTransactionId ||
			spill->fxid_bits != ZXactSlotFxid(spill) ||
			!UndoRecPtrIsValid(spill->urp))
			return pstrdup("the spill chain has no valid writer or record");
	}
	if (ZPageHasShared(page))
	{
		ZXactSlot	shared = ZPageGetShared(page);

		if ((shared->fxid_bits & ~(ZSHARED_FXID_MASK | ZSHARED_ENDS |
								   ZSHARED_BASE)) != 0 ||
			(shared->fxid_bits != 0 &&
			 ZSharedYoungest(shared) < FirstNormalTransactionId) ||
			(shared->fxid_bits != 0) != UndoRecPtrIsValid(shared->urp))
			return pstrdup("the shared xact slot has no valid transaction or record");
	}
	for (id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (ZXactSlotIsFree(slot))
		{
			if (UndoRecPtrIsValid(slot->urp))
				return psprintf("xact slot %d is free but has an undo record",
								id);
		}
		else if (ZXactSlotFxid(slot) < FirstNormalTransactionId)
			return psprintf("xact slot %d has flags but no owner", id);
		else if (!UndoRecPtrIsValid(slot->urp))
			return psprintf("xact slot %d has an owner but no undo record", id);
	}
	return NULL;
}

char *
zheap_page_problem(Page page)
{
	PageHeader	ph = (PageHeader) page;
	OffsetNumber max;
	OffsetNumber off;
	char	   *problem;
	bool	   *taken;
	int			i;

	if (PageIsNew(page))
		return NULL;
	if (!zheap_page_is_valid(page))
		return pstrdup("page header or special space is invalid");

	for (i = ph->pd_lower; i < ph->pd_upper; i++)
	{
		if (((char *) page)[i] != 0)
			return psprintf("byte %d of the hole is not zero", i);
	}
	if ((problem = xact_slots_problem(page)) != NULL)
		return problem;

	max = PageGetMaxOffsetNumber(page);
	taken = palloc0(BLCKSZ);
	for (off = FirstOffsetNumber; off <= max && problem == NULL; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (!ItemIdIsNormal(lp))
		{
			problem = pointer_problem(page, off);
			continue;
		}
		if ((problem = tuple_problem(page, off)) != NULL)
			continue;
		for (i = lp->lp_off; i < lp->lp_off + lp->lp_len; i++)
		{
			if (taken[i])
			{
				problem = psprintf("tuple %u overlaps another one", off);
				break;
			}
			taken[i] = true;
		}
	}
	pfree(taken);
	return problem;
}

#ifdef USE_ASSERT_CHECKING
void
zheap_page_assert_sound(Page page, BlockNumber block, const char *work)
{
	char	   *problem = zheap_page_problem(page);

	if (problem != NULL)
		elog(ERROR, "%s of block %u left a bad page: %s", work, block,
			 problem);
}
#endif
