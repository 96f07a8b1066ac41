/*-------------------------------------------------------------------------
 *
 * toy_format.c
 *	  The format of undo pages at its limits: what is written by undo_page.c
 *	  is read back from a private page, and bytes that nobody wrote are never
 *	  taken for an entry that leaves the page.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"

#include "undo/undo_pack.h"
#include "undo/log/undo_page.h"

PG_FUNCTION_INFO_V1(toy_format_records);
PG_FUNCTION_INFO_V1(toy_format_runs);
PG_FUNCTION_INFO_V1(toy_format_damage);

#define MYLOG		7
#define MYBLOCK	1000000

#define SELF(at)	MakeUndoRecPtr(MYLOG, MYBLOCK, at)

/* the room of the page is right, as undo_xact.c sees to */
static uint16
put_run(Page page, Oid reloid, Oid dboid, Fxid fxid)
{
	PageHeader	header = (PageHeader) page;
	char		head[UNDO_MAX_RUN];
	bool		new_relation;
	uint16		at = header->pd_lower;
	uint8		len = undo_page_form_run(page, reloid, dboid, fxid, head,
										 &new_relation);

	if (len + (new_relation ? sizeof(UndoPageRelation) : 0) > UNDO_MAX_RUN)
		elog(ERROR, "run header of %d bytes", len);
	if (new_relation)
		undo_page_add_relation(page, reloid, dboid);
	undo_page_put(page, at, head, len);
	header->pd_lower += len;
	undo_page_note_writer(page, fxid);
	return at;
}

static void
check_run(Page page, uint16 at, Oid reloid, Oid dboid, Fxid fxid, bool applied)
{
	UndoEntry	entry;

	if (!undo_page_get(page, at, &entry) || entry.kind != UNDO_KIND_RUN ||
		entry.at != at || entry.reloid != reloid || entry.dboid != dboid ||
		entry.fxid != fxid ||
		entry.flags != (applied ? UNDO_RUN_APPLIED : 0))
		elog(ERROR,
			 "run header of relation %u, database %u, transaction " UINT64_FORMAT " is wrong",
			 reloid, dboid, fxid);
}

/* Put one record if there is room, and look at it. */
static bool
put_record(Page page, uint16 run, uint8 kind, uint8 flags,
		   OffsetNumber offset, BlockNumber block, UndoRecPtr chain,
		   uint16 payload_len)
{
	PageHeader	header = (PageHeader) page;
	static char payload[UNDO_MAX_PAYLOAD];
	uint16		at = header->pd_lower;
	UndoInsertRec rec = {
		.kind = kind,
		.flags = flags,
		.offset = offset,
		.block = block,
		.chain = chain,
		.payload_len = payload_len,
		.urp = SELF(at),
	};
	UndoEntry	entry;
	UndoEntryRest rest;
	uint8		len;

	undo_page_form_record(&rec, run);
	len = rec.head_len;
	if (at + len + payload_len > header->pd_upper)
		return false;
	memset(payload, kind ^ flags, payload_len);
	undo_page_put(page, at, rec.head, len);
	undo_page_put(page, at + len, payload, payload_len);
	header->pd_lower += len + payload_len;

	if (!undo_page_get(page, at, &entry) ||
		!undo_page_get_rest(&entry, SELF(at), &rest) ||
		entry.kind != kind || entry.len != len + payload_len ||
		entry.run != run || entry.block != block ||
		rest.flags != flags || rest.offset != offset ||
		rest.chain != chain || rest.payload_len != payload_len ||
		memcmp(rest.payload, payload, payload_len) != 0)
		elog(ERROR,
			 "record of kind %u, flags %u, offset %u, block %u, chain " UndoRecPtrFormat ", %u bytes is wrong",
			 kind, flags, offset, block, UndoRecPtrFormatArgs(chain),
			 payload_len);

	/* neither a page nor a payload that is cut off has it */
	header->pd_lower--;
	if (undo_page_get(page, at, &entry))
		elog(ERROR, "an entry beyond the end of the page");
	header->pd_lower++;
	return true;
}

/* Every number at its limits, each with each; returns how many records. */
Datum
toy_format_records(PG_FUNCTION_ARGS)
{
	static const uint8 kinds[] = {1, UNDO_MAX_KIND};
	static const uint8 flags[] = {0, 0xFF};
	static const OffsetNumber offsets[] = {1, 127, 128, PG_UINT16_MAX};
	static const BlockNumber blocks[] = {0, 127, 128, 1 << 14, 1 << 28,
	MaxBlockNumber};
	static const uint16 payloads[] = {0, 1, 100, 130};
	static const UndoRecPtr chains[] = {
		InvalidUndoRecPtr,
		MakeUndoRecPtr(MYLOG, MYBLOCK, UNDO_FIRST_OFFSET),
		MakeUndoRecPtr(MYLOG, MYBLOCK, BLCKSZ - 1),
		MakeUndoRecPtr(MYLOG, MYBLOCK, BLCKSZ),
		MakeUndoRecPtr(MYLOG, MYBLOCK, (1 << UNDO_OFFSET_BITS) - 1),
		MakeUndoRecPtr(MYLOG, MYBLOCK - 128, 24),
		MakeUndoRecPtr(MYLOG, MYBLOCK + 128, 24),
		MakeUndoRecPtr(MYLOG, MYBLOCK - (1 << 15), 24),
		MakeUndoRecPtr(MYLOG, MYBLOCK + (1 << 15), 24),
		MakeUndoRecPtr(MYLOG, 1, 24),
		MakeUndoRecPtr(MYLOG, (UINT64CONST(1) << UNDO_BLOCK_BITS) - 1, 24),
		MakeUndoRecPtr(0, 1, 1),
		MakeUndoRecPtr(0, MYBLOCK, 1),
		MakeUndoRecPtr(MYLOG + 1, MYBLOCK, 8191),
		MakeUndoRecPtr(UNDO_TEMP_LOG, 1, 24),
		MakeUndoRecPtr(UNDO_TEMP_LOG, (UINT64CONST(1) << UNDO_BLOCK_BITS) - 1,
					   8191),
		MakeUndoRecPtr(UNDO_TEMP_LOG, MYBLOCK, 0),
		1, UINT64CONST(1) << 63, UNDO_CHAIN_PREVIOUS
	};
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	uint16		run = 0;
	int			n = 0;

	for (int i = 0; i < lengthof(chains); i++)
	{
		char		packed[UNDO_MAX_PACKED_URP];
		int			size = undo_packed_urp_size(SELF(24), chains[i]);
		UndoRecPtr	back;

		if (undo_pack_urp(packed, SELF(24), chains[i]) != packed + size ||
			undo_unpack_urp(packed, packed + size, SELF(24), &back) !=
			packed + size || back != chains[i])
			elog(ERROR, "pointer " UndoRecPtrFormat " is wrong",
				 UndoRecPtrFormatArgs(chains[i]));
		for (int cut = 0; cut < size; cut++)
			if (undo_unpack_urp(packed, packed + cut, SELF(24), &back) != NULL)
				elog(ERROR, "a pointer that is cut off");
	}

	undo_page_init(page, InvalidBlockNumber, 1);
	for (int c = 0; c < lengthof(chains); c++)
		for (int b = 0; b < lengthof(blocks); b++)
			for (int o = 0; o < lengthof(offsets); o++)
				for (int l = 0; l < lengthof(payloads); l++)
					for (int k = 0; k < 4; k++, n++)
					{
						if (run != 0 &&
							put_record(page, run, kinds[k & 1], flags[k >> 1],
									   offsets[o], blocks[b], chains[c],
									   payloads[l]))
							continue;
						undo_page_init(page, InvalidBlockNumber, n);
						run = put_run(page, 1, 1, n + 1);
						if (!put_record(page, run, kinds[k & 1], flags[k >> 1],
										offsets[o], blocks[b], chains[c],
										payloads[l]))
							elog(ERROR, "an empty page is too small");
					}

	/* the largest one, behind the largest headers */
	undo_page_init(page, InvalidBlockNumber, n);
	run = put_run(page, PG_UINT32_MAX, PG_UINT32_MAX, PG_UINT64_MAX);
	if (!put_record(page, run, UNDO_MAX_KIND, 0xFF, PG_UINT16_MAX,
					MaxBlockNumber, UNDO_CHAIN_PREVIOUS, UNDO_MAX_PAYLOAD))
		elog(ERROR, "the largest record doesn't fit an empty page");
	PG_RETURN_INT32(n + 1);
}

/*
 * Transactions far from each other, more relations than a page can name;
 * returns the bytes of all run headers of such a page.
 */
Datum
toy_format_runs(PG_FUNCTION_ARGS)
{
	static const Fxid fxids[] = {
		(UINT64CONST(1) << 32) + 5, (UINT64CONST(1) << 32) - 5, 1, 3,
		PG_UINT64_MAX, UINT64CONST(1) << 63, (UINT64CONST(1) << 32) + 68,
		(UINT64CONST(1) << 32) + 69,
	};
	int			nrels = UNDO_PAGE_MAX_RELATIONS + 8;
	PGAlignedBlock copy;
	PGAlignedBlock before;
	Page		page = (Page) copy.data;
	uint16		at[lengthof(fxids)][UNDO_PAGE_MAX_RELATIONS + 8];
	uint16		applied;
	int			changed = 0;

	undo_page_init(page, InvalidBlockNumber, 1);
	for (int f = 0; f < lengthof(fxids); f++)
		for (int r = 0; r < nrels; r++)
			at[f][r] = put_run(page, PG_UINT32_MAX - r, r % 3 + 1, fxids[f]);
	if (undo_page_problem(page, UNDO_PAGE_MAGIC) != NULL)
		elog(ERROR, "%s", undo_page_problem(page, UNDO_PAGE_MAGIC));

	memcpy(&before, &copy, BLCKSZ);
	applied = at[3][nrels - 1];
	undo_page_set_applied(page, &applied, 1);
	for (int i = 0; i < BLCKSZ; i++)
		changed += before.data[i] != copy.data[i];
	if (changed != 1)
		elog(ERROR, "%d bytes changed", changed);

	for (int f = 0; f < lengthof(fxids); f++)
		for (int r = 0; r < nrels; r++)
			check_run(page, at[f][r], PG_UINT32_MAX - r, r % 3 + 1, fxids[f],
					  at[f][r] == applied);
	PG_RETURN_INT32(((PageHeader) page)->pd_lower - UNDO_FIRST_OFFSET);
}

/*
 * Random bytes, n pages of them, each entered at all offsets: what is taken
 * for an entry lies within the page.  Returns whether there were some.
 */
Datum
toy_format_damage(PG_FUNCTION_ARGS)
{
	int			n = PG_GETARG_INT32(0);
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	PageHeader	header = (PageHeader) page;
	pg_prng_state prng;
	int64		found = 0;

	pg_prng_seed(&prng, 1);
	for (int i = 0; i < n; i++)
	{
		/* in every other one, numbers go on and on */
		uint8		more = (i & 1) ? 0x80 : 0;

		undo_page_init(page, InvalidBlockNumber, 1);
		header->pd_lower = UNDO_FIRST_OFFSET +
			pg_prng_uint64_range(&prng, 1, UNDO_PAGE_CAPACITY -
								 sizeof(UndoPageRelation));
		header->pd_upper -= sizeof(UndoPageRelation);
		for (int at = UNDO_FIRST_OFFSET; at < header->pd_lower; at++)
			copy.data[at] = (char) ((uint8) pg_prng_uint32(&prng) | more);

		for (int at = 0; at <= PG_UINT16_MAX; at++)
		{
			UndoEntry	entry;
			UndoEntryRest rest;

			if (!undo_page_get(page, at, &entry))
				continue;
			found++;
			if (at < UNDO_FIRST_OFFSET || at + entry.len > header->pd_lower ||
				entry.len < 2)
				elog(ERROR, "entry out of bounds");
			if (entry.kind == UNDO_KIND_RUN)
				continue;
			if (entry.run < UNDO_FIRST_OFFSET || entry.run >= at ||
				entry.rest + entry.rest_len != (char *) page + at + entry.len)
				elog(ERROR, "record out of bounds");
			if (undo_page_get_rest(&entry, SELF(at), &rest) &&
				rest.payload + rest.payload_len !=
				(char *) page + at + entry.len)
				elog(ERROR, "payload out of bounds");
		}
	}
	PG_RETURN_BOOL(found > 0);
}
