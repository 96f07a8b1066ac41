/*-------------------------------------------------------------------------
 *
 * zheap_keyed.c
 *	  Soft indexes: which indexes of a table are, and which of a row's entries
 *	  in them are needed.
 *
 * Columns of a soft index change in place (Z44).  The row keeps its TID, and
 * the index gets an entry with the new key beside the old one, which older
 * snapshots need.  So an entry alone doesn't say that the row has that key:
 * this is found out by comparing it with a version of the row, byte by byte.
 *
 * A kind of index can be soft if no other party relies on one entry per row and
 * it has a key that is a plain column of the table.  That is btree without
 * uniqueness and exclusion.  Of such an index only the plain keys are soft:
 * columns in its expressions, in its predicate or under INCLUDE make the row
 * move, so that all versions of a TID have the same of them.  Where equality of
 * the opclasses isn't equality of bytes a row moves if it has an entry that is
 * equal to the new one, but another value (Z48).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type_d.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/soft/zheap_keyed.h"

/* tables whose indexes are remembered */
#define REMEMBERED				16

/*
 * Undo records that may be read to find out that an entry isn't needed: a row
 * that is changed without pause keeps so many old keys at most.
 */
#define NEEDED_BUDGET			UNDO_KNOB("needed-budget", 20, 1, 20)

bool		zheap_keyed_wanted = false;
uint64		zheap_keyed_changes = 1;

/* zheap.update_indexed_in_place, and .._tables */
static bool all_tables = false;
static char *listed_tables = NULL;

/* ----------------------------------------------------------------
 *	which indexes
 * ----------------------------------------------------------------
 */

AttrNumber
zheap_keyed_soft_column(Relation index, int i)
{
	Form_pg_index form = index->rd_index;

	return i < form->indnkeyatts ? form->indkey.values[i] : 0;
}

bool
zheap_keyed_is_soft_kind(Relation rel, Relation index)
{
	Form_pg_index form = index->rd_index;
	bool		soft = false;

	if (index->rd_rel->relam != BTREE_AM_OID || form->indisunique ||
		form->indisexclusion || RelationUsesLocalBuffers(rel))
		return false;
	for (int i = 0; i < form->indnkeyatts; i++)
	{
		AttrNumber	attnum = form->indkey.values[i];
		Form_pg_attribute theirs = TupleDescAttr(RelationGetDescr(index), i);
		Form_pg_attribute ours;

		if (attnum < 0)
			return false;
		if (attnum == 0)
			continue;			/* an expression */
		ours = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
		/* not so for name, which is stored as a C string */
		if (theirs->atttypid != ours->atttypid ||
			theirs->attlen != ours->attlen ||
			theirs->attbyval != ours->attbyval)
			return false;
		soft = true;
	}
	return soft;
}

/*
 * The opclasses of bpchar say that equality is equality of bytes, but blanks at
 * the end don't count for them.  Values of a column with a length are padded to
 * it; others would meet nbtree's mistakes (zheap_keyed_same_key()) often.
 */
static bool
has_blanks(Relation rel, Relation index)
{
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		AttrNumber	attnum = zheap_keyed_soft_column(index, i);

		if (attnum != 0 && index->rd_opcintype[i] == BPCHAROID &&
			TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atttypmod < 0)
			return true;
	}
	return false;
}

/*
 * Is an index soft now?  One that is being built or dropped isn't: whoever
 * does that relies on rows that move.
 */
static bool
is_soft(Relation rel, Relation index, bool *equals)
{
	bool		heapkeyspace;
	bool		allequalimage;

	if (!index->rd_index->indisvalid || !index->rd_index->indisready ||
		!zheap_keyed_is_soft_kind(rel, index) || has_blanks(rel, index))
		return false;
	_bt_metaversion(index, &heapkeyspace, &allequalimage);
	*equals = !allequalimage;	/* also where there are INCLUDE columns */
	return heapkeyspace;
}

static Bitmapset *
add_column(Bitmapset *attrs, AttrNumber attnum)
{
	return attnum == InvalidAttrNumber ? attrs :
		bms_add_member(attrs, attnum - FirstLowInvalidHeapAttributeNumber);
}

/*
 * The columns of an index's expressions, or predicate, as they were written and as
 * core looks for changes: a function that is inlined may ask for one column where
 * core goes by the whole row.
 */
static Bitmapset *
add_columns_as_written(Bitmapset *attrs, Relation index, AttrNumber what)
{
	bool		isnull;
	Datum		written = SysCacheGetAttr(INDEXRELID, index->rd_indextuple,
									  what, &isnull);

	if (!isnull)
		pull_varattnos(stringToNode(TextDatumGetCString(written)), 1, &attrs);
	return attrs;
}

Bitmapset *
zheap_keyed_hard_columns(Relation index)
{
	Bitmapset  *attrs = NULL;

	for (int i = index->rd_index->indnkeyatts; i < index->rd_index->indnatts; i++)
		attrs = add_column(attrs, index->rd_index->indkey.values[i]);
	attrs = add_columns_as_written(attrs, index, Anum_pg_index_indexprs);
	return add_columns_as_written(attrs, index, Anum_pg_index_indpred);
}

/* what is remembered of a table's indexes */
typedef struct Remembered
{
	Oid			relid;
	bool		valid;
	bool		listed;			/* the setting names the table */
	MemoryContext context;
	ZSoftIndexes *indexes;		/* NULL: none is soft */
} Remembered;

static Remembered remembered[REMEMBERED];

/* CacheRegisterRelcacheCallback */
static void
forget_indexes(Datum arg, Oid relid)
{
	zheap_keyed_changes++;
	for (int i = 0; i < REMEMBERED; i++)
	{
		if (!OidIsValid(relid) || remembered[i].relid == relid)
			remembered[i].valid = false;
	}
}

static void
assign_all_tables(bool newval, void *extra)
{
	zheap_keyed_wanted = newval || (listed_tables != NULL && *listed_tables);
}

static void
assign_listed_tables(const char *newval, void *extra)
{
	zheap_keyed_wanted = all_tables || (newval != NULL && *newval);
	for (int i = 0; i < REMEMBERED; i++)
		remembered[i].valid = false;
}

/* Called from _PG_init. */
void
zheap_keyed_define_settings(void)
{
	DefineCustomBoolVariable("zheap.update_indexed_in_place",
							 "Leaves rows where they are when indexed columns are updated, if their indexes allow it.",
							 "Only the indexes whose columns change get new entries.",
							 &all_tables, false,
							 PGC_USERSET, 0, NULL, assign_all_tables, NULL);
	DefineCustomStringVariable("zheap.update_indexed_in_place_tables",
							   "Tables for which zheap.update_indexed_in_place is on.",
							   "Names separated by commas, quoted where SQL needs it, with their schema or for any schema.",
							   &listed_tables, "",
							   PGC_USERSET, GUC_LIST_INPUT,
							   NULL, assign_listed_tables, NULL);
	CacheRegisterRelcacheCallback(forget_indexes, (Datum) 0);
}

/* the end of a list's first name: a comma that isn't quoted, or the list's */
static const char *
end_of_name(const char *p)
{
	bool		quoted = false;

	for (; *p != '\0' && (quoted || *p != ','); p++)
	{
		if (*p == '"')
			quoted = !quoted;
	}
	return p;
}

static bool
is_listed(Relation rel)
{
	const char *name;
	char	   *schema = get_namespace_name(RelationGetNamespace(rel));
	char	   *qualified;
	const char *p = listed_tables;
	bool		quote_all = quote_all_identifiers;

	if (p == NULL || *p == '\0' || schema == NULL)
		return false;
	quote_all_identifiers = false;
	name = quote_identifier(RelationGetRelationName(rel));
	qualified = quote_qualified_identifier(schema,
										   RelationGetRelationName(rel));
	quote_all_identifiers = quote_all;
	while (*p != '\0')
	{
		const char *end = end_of_name(p);
		const char *last = end;
		size_t		len;

		while (p < end && isspace((unsigned char) *p))
			p++;
		while (last > p && isspace((unsigned char) last[-1]))
			last--;
		len = last - p;
		if ((len == strlen(name) && memcmp(p, name, len) == 0) ||
			(len == strlen(qualified) && memcmp(p, qualified, len) == 0))
			return true;
		p = *end == ',' ? end + 1 : end;
	}
	return false;
}

static Size
size_of_indexes(int n)
{
	return offsetof(ZSoftIndexes, index) + n * sizeof(ZSoftIndex);
}

/* columns that an index is about, in whatever way */
static Bitmapset *
columns_of(Relation index)
{
	Bitmapset  *attrs = zheap_keyed_hard_columns(index);

	for (int i = 0; i < index->rd_index->indnatts; i++)
		attrs = add_column(attrs, index->rd_index->indkey.values[i]);
	return attrs;
}

static void
describe_soft(ZSoftIndex *soft, Relation index)
{
	soft->oid = RelationGetRelid(index);
	soft->natts = 0;
	soft->attrs = NULL;
	soft->varlena = false;
	soft->evaluated =
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL) ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		AttrNumber	attnum = zheap_keyed_soft_column(index, i);

		if (attnum == 0)
			continue;
		soft->attnum[soft->natts++] = attnum;
		soft->attrs = add_column(soft->attrs, attnum);
		if (TupleDescAttr(RelationGetDescr(index), i)->attlen == -1)
			soft->varlena = true;
	}
	Assert(soft->natts > 0 && soft->natts <= INDEX_MAX_KEYS);
}

/* NULL if none is soft */
static ZSoftIndexes *
survey_indexes(Relation rel)
{
	List	   *oids = RelationGetIndexList(rel);
	ZSoftIndexes *indexes = palloc0(size_of_indexes(list_length(oids)));
	ListCell   *lc;

	foreach(lc, oids)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		ZSoftIndex *soft = &indexes->index[indexes->n];

		if (is_soft(rel, index, &soft->equals))
		{
			describe_soft(soft, index);
			indexes->n++;
			indexes->hard = bms_join(indexes->hard,
									 zheap_keyed_hard_columns(index));
		}
		else
			indexes->hard = bms_join(indexes->hard, columns_of(index));
		index_close(index, AccessShareLock);
	}
	list_free(oids);
	return indexes->n > 0 ? indexes : NULL;
}

static Remembered *
remember_indexes(Relation rel)
{
	static int	next = 0;
	Remembered *r = &remembered[next];
	MemoryContext old;

	next = (next + 1) % REMEMBERED;
	if (r->context == NULL)
		r->context = AllocSetContextCreate(TopMemoryContext,
										   "zheap soft indexes",
										   ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(r->context);
	/* not valid if an index is changed while it is read */
	r->indexes = NULL;
	r->relid = RelationGetRelid(rel);
	r->valid = true;
	old = MemoryContextSwitchTo(r->context);
	r->indexes = survey_indexes(rel);
	r->listed = is_listed(rel);
	MemoryContextSwitchTo(old);
	return r;
}

ZSoftIndexes *
zheap_keyed_indexes(Relation rel)
{
	Remembered *r = NULL;
	ZSoftIndexes *copy;

	if (RelationUsesLocalBuffers(rel) || !rel->rd_rel->relhasindex)
		return NULL;
	for (int i = 0; i < REMEMBERED; i++)
	{
		if (remembered[i].valid &&
			remembered[i].relid == RelationGetRelid(rel))
			r = &remembered[i];
	}
	if (r == NULL)
		r = remember_indexes(rel);
	if (r->indexes == NULL || !(all_tables || r->listed))
		return NULL;

	/* what is remembered may go while the caller waits */
	copy = palloc(size_of_indexes(r->indexes->n));
	memcpy(copy, r->indexes, size_of_indexes(r->indexes->n));
	copy->hard = bms_copy(r->indexes->hard);
	for (int i = 0; i < copy->n; i++)
		copy->index[i].attrs = bms_copy(r->indexes->index[i].attrs);
	return copy;
}

void
zheap_keyed_free_indexes(ZSoftIndexes *indexes)
{
	bms_free(indexes->hard);
	for (int i = 0; i < indexes->n; i++)
		bms_free(indexes->index[i].attrs);
	pfree(indexes);
}

/* ----------------------------------------------------------------
 *	rows
 * ----------------------------------------------------------------
 */

static bool
has_plain_columns(Relation rel, const ZSoftIndex *index, const char *tuple,
				  uint16 len)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			ncolumns = zheap_tuple_first_columns(index->attnum, index->natts);
	Datum	   *values = palloc(ncolumns * sizeof(Datum));
	bool	   *isnull = palloc(ncolumns * sizeof(bool));
	bool		plain = true;

	Assert(len >= ZHEAP_HEADER_SIZE);
	zheap_tuple_deform_first(desc, ncolumns, tuple, len, values, isnull);
	for (int i = 0; i < index->natts && plain; i++)
	{
		int			at = index->attnum[i] - 1;

		plain = zheap_same_is_plain(TupleDescAttr(desc, at), values[at],
									isnull[at]);
	}
	zheap_tuple_free_first(desc, ncolumns, tuple, len, values);
	pfree(values);
	pfree(isnull);
	return plain;
}

bool
zheap_keyed_may_stay(Relation rel, const ZSoftIndexes *indexes,
					 Bitmapset *changed, const char *old, uint16 oldlen,
					 const char *new, uint16 newlen)
{
	Assert(oldlen >= ZHEAP_HEADER_SIZE && newlen >= ZHEAP_HEADER_SIZE);
	if (bms_overlap(changed, indexes->hard))
		return false;
	for (int i = 0; i < indexes->n; i++)
	{
		const ZSoftIndex *index = &indexes->index[i];

		if (index->varlena && bms_overlap(changed, index->attrs) &&
			!(has_plain_columns(rel, index, old, oldlen) &&
			  has_plain_columns(rel, index, new, newlen)))
			return false;
	}
	return true;
}

bool
zheap_keyed_may_be_equal(const ZSoftIndexes *indexes, Bitmapset *changed)
{
	for (int i = 0; i < indexes->n; i++)
	{
		if (indexes->index[i].equals &&
			bms_overlap(indexes->index[i].attrs, changed))
			return true;
	}
	return false;
}

ZSame
zheap_keyed_same_key(Relation index, int i, Datum key, bool keynull,
					 Datum value, bool isnull, bool may_fetch)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(index), i);
	ZSame		same = zheap_same_value(att, key, keynull, value, isnull,
										may_fetch);
	BpChar	   *a;
	BpChar	   *b;
	int			len;

	if (same != ZSAME_NO || keynull || isnull ||
		i >= index->rd_index->indnkeyatts ||
		index->rd_opcintype[i] != BPCHAROID)
		return same;
	a = DatumGetBpCharPP(key);
	b = DatumGetBpCharPP(value);
	len = bpchartruelen(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a));
	same = len == bpchartruelen(VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b)) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), len) == 0 ?
		ZSAME_YES : ZSAME_NO;
	if (a != (BpChar *) DatumGetPointer(key))
		pfree(a);
	if (b != (BpChar *) DatumGetPointer(value))
		pfree(b);
	return same;
}

ZKeyMatch
zheap_keyed_compare(Relation rel, Relation index, IndexTuple entry,
					const char *tuple, uint16 len, bool may_fetch)
{
	TupleDesc	desc = RelationGetDescr(rel);
	TupleDesc	keydesc = RelationGetDescr(index);
	int			nkeys = index->rd_index->indnkeyatts;
	int			ncolumns =
		zheap_tuple_first_columns(index->rd_index->indkey.values, nkeys);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	ZKeyMatch	match = ZKEY_SAME;

	Assert(len >= ZHEAP_HEADER_SIZE);
	zheap_tuple_deform_first(desc, ncolumns, tuple, len, values, isnull);
	for (int i = 0; i < nkeys && match == ZKEY_SAME; i++)
	{
		int			at = zheap_keyed_soft_column(index, i) - 1;
		bool		keynull;
		Datum		key;

		if (at < 0)
			continue;
		key = index_getattr(entry, i + 1, keydesc, &keynull);
		switch (zheap_keyed_same_key(index, i, key, keynull, values[at],
									 isnull[at], may_fetch))
		{
			case ZSAME_YES:
				break;
			case ZSAME_NO:
				match = ZKEY_OTHER;
				break;
			case ZSAME_UNKNOWN:
				match = ZKEY_UNKNOWN;
				break;
		}
	}
	zheap_tuple_free_first(desc, ncolumns, tuple, len, values);
	return match;
}

bool
zheap_keyed_is_equal(Relation rel, Relation index, IndexTuple entry,
					 const char *tuple, uint16 len)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			nkeys = index->rd_index->indnkeyatts;
	int			ncolumns =
		zheap_tuple_first_columns(index->rd_index->indkey.values, nkeys);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	bool		equal = true;

	AssertNoPageLocked();
	zheap_tuple_deform_first(desc, ncolumns, tuple, len, values, isnull);
	for (int i = 0; i < nkeys && equal; i++)
	{
		int			at = zheap_keyed_soft_column(index, i) - 1;
		bool		keynull;
		Datum		key;

		if (at < 0)
			continue;
		key = index_getattr(entry, i + 1, RelationGetDescr(index), &keynull);
		equal = keynull == isnull[at] &&
			(keynull ||
			 DatumGetInt32(FunctionCall2Coll(index_getprocinfo(index, i + 1,
															   BTORDER_PROC),
											 index->rd_indcollation[i], key,
											 values[at])) == 0);
	}
	zheap_tuple_free_first(desc, ncolumns, tuple, len, values);
	return equal;
}

int
zheap_keyed_compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare(unconstify(ItemPointerData *,
										 (const ItemPointerData *) a),
							  unconstify(ItemPointerData *,
										 (const ItemPointerData *) b));
}

/* ----------------------------------------------------------------
 *	is an entry needed (Z50)
 * ----------------------------------------------------------------
 */

/*
 * The walk stands at a version that counts; does it have the entry's key?  Of
 * values out of line nobody can tell here, so that the entry stays; but it may
 * be an older one as well (Z52).
 */
static bool
version_needs(ZWalk *walk, Relation index, IndexTuple entry, bool *same)
{
	ZKeyMatch	match = zheap_keyed_compare(walk->rel, index, entry,
											walk->image, *walk->len, false);

	*same = match == ZKEY_SAME;
	return match != ZKEY_OTHER;
}

/*
 * Go back from the newest version to the first that is visible to all, past
 * those that aborted.
 */
static bool
walk_needs(ZWalk *walk, Page page, Buffer buffer, Relation index,
		   IndexTuple entry, Fxid *conflict, bool *newest)
{
	ZWalkState	state = zheap_walk_start(walk, page);
	bool		first = true;
	bool		same;

	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(walk, buffer);

		/* whoever the writer was: the owner isn't older */
		if (status == ZXACT_ALL_VISIBLE ||
			(status == ZXACT_COMMITTED &&
			 zheap_xact_slot_seen_by_all(walk->rel, walk->fxid, walk->hz,
										 conflict)))
			break;
		switch (zheap_walk_find(walk, status == ZXACT_ABORTED))
		{
			case ZFIND_FOUND:
				break;
			case ZFIND_OTHER:
				continue;
			case ZFIND_GONE:
				state = ZWALK_SETTLED;
				continue;
			default:
				return true;
		}
		if (status != ZXACT_ABORTED)
		{
			if (version_needs(walk, index, entry, &same))
			{
				*newest = first && same;
				return true;
			}
			first = false;
		}
		/* there has never been more of the row */
		if (ZUndoIsInsert(&walk->undo))
			return status == ZXACT_ABORTED;
		state = zheap_walk_step_back(walk);
	}
	if (state == ZWALK_NONE)
		return true;
	if (!version_needs(walk, index, entry, &same))
		return false;
	*newest = first && same;
	return true;
}

bool
zheap_keyed_is_needed(ZReadContext *cx, Relation index, IndexTuple entry,
					  Buffer buffer, Page page, BlockNumber block,
					  OffsetNumber off, Fxid *conflict, bool *newest)
{
	return zheap_keyed_is_needed_within(NEEDED_BUDGET, cx, index, entry,
										buffer, page, block, off, conflict,
										newest);
}

bool
zheap_keyed_is_needed_within(int budget, ZReadContext *cx, Relation index,
							 IndexTuple entry, Buffer buffer, Page page,
							 BlockNumber block, OffsetNumber off,
							 Fxid *conflict, bool *newest)
{
	ZWalk		walk;
	PGAlignedBlock image;
	uint16		len = 0;
	Fxid		horizon = InvalidFxid;
	bool		needed;

	AssertPageLocked(buffer);
	*newest = false;
	if (off < FirstOffsetNumber || off > PageGetMaxOffsetNumber(page) ||
		!ItemIdIsNormal(PageGetItemId(page, off)) ||
		!zheap_page_row_is_stale(page, off))
		return true;

	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					image.data, &len);
	walk.budget = budget;
	needed = walk_needs(&walk, page, buffer, index, entry, &horizon, newest);
	zheap_walk_forget_missing(&walk);
	if (!needed)
		*conflict = Max(*conflict, horizon);
	return needed;
}
