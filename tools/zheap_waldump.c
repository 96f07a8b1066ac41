/*-------------------------------------------------------------------------
 *
 * zheap_waldump.c
 *	  zheap-waldump [OPTION OF pg_waldump]... [STARTSEG [ENDSEG]]: what
 *	  pg_waldump says, with the names and descriptions of this library's
 *	  records, for which it has "custom151" only.  No server is needed.
 *
 * pg_waldump does the work: finds, checks and prints.  For each record of ours
 * that it names, this program reads the record's bytes from the same files,
 * and asks the functions that the library gives to the server (rm_desc,
 * rm_identify).  They are linked from the library's own sources; the linker
 * throws away whatever else stands there (Makefile).  What they call of the
 * server is at the end of this file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "access/xlogreader.h"

#include "undo/undo_module.h"
#include "zheap/zheap_xlog.h"

/* a front end's, not the server's */
#undef printf
#undef fprintf
#undef snprintf
#undef vsnprintf
#undef strerror

#define CUSTOM_NAME		"custom151"
#define UNKNOWN_DESC	"rmid: 151"

StaticAssertDecl(ZHEAP_RMGR_ID == 151, "names what pg_waldump prints");

/* where WAL is, as pg_waldump was told */
static char wal_dir[MAXPGPATH];
static TimeLineID timeline = 1;
static uint32 segment_size;		/* 0: no file was looked at yet */

static jmp_buf malformed;		/* where errfinish() goes */

pg_noreturn static void fail(const char *what, const char *name);

static void
fail(const char *what, const char *name)
{
	fprintf(stderr, "zheap-waldump: %s \"%s\": %s\n", what, name,
			strerror(errno));
	exit(1);
}

/* ----------------------------------------------------------------
 *	files
 * ----------------------------------------------------------------
 */

/* Size of segments, from the first file there is; 0: there is none. */
static uint32
segment_size_in(const char *folder)
{
	DIR		   *dir = opendir(folder);
	struct dirent *entry;
	uint32		size = 0;

	if (dir == NULL)
		return 0;
	while (size == 0 && (entry = readdir(dir)) != NULL)
	{
		char		path[MAXPGPATH * 2];
		XLogLongPageHeaderData header;
		int			fd;

		if (!IsXLogFileName(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		if (read(fd, &header, sizeof(header)) == sizeof(header) &&
			(header.std.xlp_info & XLP_LONG_HEADER) != 0 &&
			IsValidWalSegSize(header.xlp_seg_size))
			size = header.xlp_seg_size;
		close(fd);
	}
	closedir(dir);
	return size;
}

static bool
try_folder(const char *folder, const char *below)
{
	snprintf(wal_dir, sizeof(wal_dir), "%s%s", folder, below);
	segment_size = segment_size_in(wal_dir);
	return segment_size != 0;
}

/* The folder that pg_waldump reads, in the order in which it looks. */
static void
find_folder(const char *path, const char *segment)
{
	const char *slash = segment != NULL ? strrchr(segment, '/') : NULL;
	const char *data = getenv("PGDATA");

	if (path != NULL)
	{
		if (!try_folder(path, ""))
			try_folder(path, "/pg_wal");
	}
	else if (slash != NULL)
	{
		char		folder[MAXPGPATH];

		snprintf(folder, sizeof(folder), "%.*s", (int) (slash - segment + 1),
				 segment);
		try_folder(folder, "");
	}
	else if (!try_folder(".", "") && !try_folder(".", "/pg_wal") &&
			 data != NULL)
		try_folder(data, "/pg_wal");
}

/*
 * What zheap-waldump has to know of the options, which are those of every major's
 * pg_waldump.  Changes the order of argv.
 */
static void
read_options(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"bkp-details", no_argument, NULL, 'b'},
		{"block", required_argument, NULL, 'B'},
		{"end", required_argument, NULL, 'e'},
		{"follow", no_argument, NULL, 'f'},
		{"fork", required_argument, NULL, 'F'},
		{"fullpage", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, '?'},
		{"limit", required_argument, NULL, 'n'},
		{"path", required_argument, NULL, 'p'},
		{"quiet", no_argument, NULL, 'q'},
		{"relation", required_argument, NULL, 'R'},
		{"rmgr", required_argument, NULL, 'r'},
		{"save-fullpage", required_argument, NULL, 'S'},
		{"start", required_argument, NULL, 's'},
		{"stats", optional_argument, NULL, 'z'},
		{"timeline", required_argument, NULL, 't'},
		{"version", no_argument, NULL, 'V'},
		{"xid", required_argument, NULL, 'x'},
		{NULL, 0, NULL, 0}
	};
	const char *path = NULL;
	const char *segment = NULL;
	int			c;

	opterr = 0;					/* pg_waldump complains */
	while ((c = getopt_long(argc, argv, "bB:e:fF:n:p:qr:R:s:t:Vwx:z",
							long_options, NULL)) != -1)
	{
		if (c == 'p')
			path = optarg;
		else if (c == 't')
			timeline = strtoul(optarg, NULL, 0);
	}
	if (optind < argc)
	{
		const char *name;

		segment = argv[optind];
		name = strrchr(segment, '/') ? strrchr(segment, '/') + 1 : segment;
		if (IsXLogFileName(name))
			sscanf(name, "%08X", &timeline);
	}
	find_folder(path, segment);
}

/* ----------------------------------------------------------------
 *	one record
 * ----------------------------------------------------------------
 */

/* Bytes of WAL from a place on, page headers left out; false if not there. */
static bool
read_wal(XLogRecPtr at, char *to, uint32 len)
{
	static int	fd = -1;
	static XLogSegNo open_segment;

	while (len > 0)
	{
		XLogSegNo	segment;
		uint32		in_segment = XLogSegmentOffset(at, segment_size);
		uint32		in_page = at % XLOG_BLCKSZ;
		uint32		head = in_segment < XLOG_BLCKSZ ? SizeOfXLogLongPHD :
			SizeOfXLogShortPHD;
		uint32		n;

		if (in_page < head)
		{
			at += head - in_page;
			continue;
		}
		XLByteToSeg(at, segment, segment_size);
		if (fd < 0 || segment != open_segment)
		{
			char		name[MAXFNAMELEN];
			char		path[MAXPGPATH + MAXFNAMELEN + 1];

			if (fd >= 0)
				close(fd);
			snprintf(name, sizeof(name), "%08X%08X%08X", timeline,
					 (uint32) (segment / XLogSegmentsPerXLogId(segment_size)),
					 (uint32) (segment % XLogSegmentsPerXLogId(segment_size)));
			snprintf(path, sizeof(path), "%s/%s", wal_dir, name);
			fd = open(path, O_RDONLY);
			if (fd < 0)
				return false;
			open_segment = segment;
		}
		n = Min(len, XLOG_BLCKSZ - in_page);
		if (pread(fd, to, n, in_segment) != n)
			return false;
		at += n;
		to += n;
		len -= n;
	}
	return true;
}

/* parts of a record's head, bounds tested */
typedef struct Part
{
	const char *at;
	const char *end;
	bool		good;
} Part;

static void
take(Part *part, void *to, Size len)
{
	if (!part->good || part->end - part->at < len)
	{
		part->good = false;
		memset(to, 0, len);
		return;
	}
	memcpy(to, part->at, len);
	part->at += len;
}

/* The head of one block's part. */
static void
decode_block(Part *part, DecodedXLogRecord *record, uint8 id)
{
	DecodedBkpBlock *block = &record->blocks[id];
	char		skipped[64];
	uint16		data_len;

	memset(block, 0, sizeof(*block));
	block->in_use = true;
	take(part, &block->flags, sizeof(uint8));
	take(part, &data_len, sizeof(uint16));
	block->data_len = data_len;
	block->has_data = (block->flags & BKPBLOCK_HAS_DATA) != 0;
	block->has_image = (block->flags & BKPBLOCK_HAS_IMAGE) != 0;
	if (block->has_image)
	{
		take(part, &block->bimg_len, sizeof(uint16));
		take(part, &block->hole_offset, sizeof(uint16));
		take(part, &block->bimg_info, sizeof(uint8));
		if ((block->bimg_info & BKPIMAGE_HAS_HOLE) != 0 &&
			BKPIMAGE_COMPRESSED(block->bimg_info))
			take(part, &block->hole_length, sizeof(uint16));
	}
	/* tablespace, database and file; then the block's number */
	if ((block->flags & BKPBLOCK_SAME_REL) == 0)
		take(part, skipped, 3 * sizeof(Oid));
	take(part, &block->blkno, sizeof(BlockNumber));
	record->max_block_id = id;
}

/*
 * The parts of a record, as far as descriptions ask for them.  The record
 * stays where it is.  False if it isn't what it should be.
 */
static bool
decode(const char *raw, uint32 len, DecodedXLogRecord *record)
{
	Part		part = {raw + SizeOfXLogRecord, raw + len, true};
	uint32		rest = 0;		/* bytes of parts behind the heads */
	char		skipped[8];

	memset(record, 0, offsetof(DecodedXLogRecord, blocks));
	memcpy(&record->header, raw, SizeOfXLogRecord);
	record->max_block_id = -1;
	for (int i = 0; i <= XLR_MAX_BLOCK_ID; i++)
		record->blocks[i].in_use = false;
	while (part.good && part.end - part.at > rest)
	{
		uint8		id;

		take(&part, &id, sizeof(uint8));
		if (id == XLR_BLOCK_ID_DATA_SHORT)
		{
			uint8		n;

			take(&part, &n, sizeof(uint8));
			record->main_data_len = n;
			rest += n;
			break;
		}
		else if (id == XLR_BLOCK_ID_DATA_LONG)
		{
			take(&part, &record->main_data_len, sizeof(uint32));
			rest += record->main_data_len;
			break;
		}
		else if (id == XLR_BLOCK_ID_ORIGIN)
			take(&part, skipped, sizeof(RepOriginId));
		else if (id == XLR_BLOCK_ID_TOPLEVEL_XID)
			take(&part, skipped, sizeof(TransactionId));
		else if (id <= XLR_MAX_BLOCK_ID)
		{
			decode_block(&part, record, id);
			rest += record->blocks[id].data_len + record->blocks[id].bimg_len;
		}
		else
			return false;
	}
	if (!part.good || part.end - part.at != rest)
		return false;
	for (int i = 0; i <= record->max_block_id; i++)
	{
		if (!record->blocks[i].in_use)
			continue;
		part.at += record->blocks[i].bimg_len;
		record->blocks[i].data = unconstify(char *, part.at);
		part.at += record->blocks[i].data_len;
	}
	record->main_data = unconstify(char *, part.at);
	return true;
}

/* A fixed buffer is enough: what doesn't fit is cut off. */
typedef struct Text
{
	StringInfoData info;
	char		bytes[8192];
} Text;

static void
begin_text(Text *text)
{
	text->info.data = text->bytes;
	text->info.len = 0;
	text->info.maxlen = sizeof(text->bytes);
	text->bytes[0] = '\0';
}

/* The description of the record at a place. */
static void
describe(XLogRecPtr lsn, uint32 len, Text *text)
{
	static union
	{
		DecodedXLogRecord record;
		char		room[offsetof(DecodedXLogRecord, blocks) +
						 (XLR_MAX_BLOCK_ID + 1) * sizeof(DecodedBkpBlock)];
	}			decoded;
	static XLogReaderState reader;
	const XLogRecord *header;
	char	   *raw = malloc(len);
	uint8		info;

	if (raw == NULL)
		fail("no memory for", "a record");
	header = (const XLogRecord *) raw;
	if (segment_size == 0 || len < SizeOfXLogRecord ||
		!read_wal(lsn, raw, len) || header->xl_tot_len != len ||
		header->xl_rmid != ZHEAP_RMGR_ID ||
		!decode(raw, len, &decoded.record))
	{
		appendStringInfoString(&text->info, "could not be read");
		free(raw);
		return;
	}
	reader.record = &decoded.record;
	reader.ReadRecPtr = lsn;
	info = header->xl_info & ~XLR_INFO_MASK;
	if (setjmp(malformed) == 0)
	{
		const char *name = info <= XLOG_UNDO_LAST ? undo_identify(info) :
			zheap_xlog_identify(info);

		if (name == NULL)
			appendStringInfo(&text->info, "UNKNOWN (%x) ", info);
		else
			appendStringInfo(&text->info, "%s ", name);
		if (info <= XLOG_UNDO_LAST)
			undo_desc(&text->info, &reader);
		else
			zheap_xlog_desc(&text->info, &reader);
	}
	else
		appendStringInfoString(&text->info, "malformed");
	free(raw);
}

/* ----------------------------------------------------------------
 *	lines of pg_waldump
 * ----------------------------------------------------------------
 */

/* A record of ours: its name, and its description in the place of none. */
static bool
print_record(const char *line, const char *name)
{
	const char *lsn = strstr(line, "lsn: ");
	const char *len = strstr(line, "len (rec/tot):");
	const char *desc = strstr(line, "desc: ");
	const char *end;
	uint32		high,
				low,
				total;
	Text		text;

	if (lsn == NULL || len == NULL || desc == NULL ||
		sscanf(lsn, "lsn: %X/%X", &high, &low) != 2 ||
		sscanf(len, "len (rec/tot): %*u/ %u", &total) != 1 ||
		(end = strstr(desc, UNKNOWN_DESC)) == NULL)
		return false;
	begin_text(&text);
	describe((uint64) high << 32 | low, total, &text);
	printf("%.*s%-*s%.*s%s%s", (int) (name - line), line,
		   (int) strlen(CUSTOM_NAME), ZHEAP_RMGR_NAME,
		   (int) (desc + strlen("desc: ") - name - strlen(CUSTOM_NAME)),
		   name + strlen(CUSTOM_NAME), text.bytes,
		   end + strlen(UNKNOWN_DESC));
	return true;
}

/* A line of --stats, or of --stats=record ("custom151/UNKNOWN (80)"). */
static void
print_stats(const char *line, const char *name)
{
	const char *behind = name + strlen(CUSTOM_NAME);
	char		label[64];
	const char *known = NULL;
	unsigned int info;
	int			used = 0;
	int			width;

	if (sscanf(behind, "/UNKNOWN (%x)%n", &info, &used) == 1 && used > 0)
	{
		known = info <= XLOG_UNDO_LAST ? undo_identify(info) :
			zheap_xlog_identify(info);
		behind += known != NULL ? used : 0;
	}
	snprintf(label, sizeof(label), "%s%s%s", ZHEAP_RMGR_NAME,
			 known != NULL ? "/" : "", known != NULL ? known : "");
	width = (int) (behind - name);
	printf("%.*s%-*s%s", (int) (name - line), line, width, label, behind);
}

static void
print_line(const char *line)
{
	const char *name = strstr(line, CUSTOM_NAME);

	if (name == NULL)
		fputs(line, stdout);
	else if (strncmp(line, "rmgr: ", 6) != 0)
		print_stats(line, name);
	else if (!print_record(line, name))
		fputs(line, stdout);
}

/* Start pg_waldump, the one beside this program if there is one. */
static pid_t
start(char **argv, int *from)
{
	char		path[MAXPGPATH];
	char	   *slash = strrchr(argv[0], '/');
	int			ends[2];
	pid_t		pid;

	snprintf(path, sizeof(path), "%.*spg_waldump",
			 slash ? (int) (slash - argv[0] + 1) : 0, argv[0]);
	if (slash == NULL || access(path, X_OK) != 0)
		strcpy(path, "pg_waldump");
	if (getenv("PG_WALDUMP") != NULL)
		snprintf(path, sizeof(path), "%s", getenv("PG_WALDUMP"));
	if (pipe(ends) != 0)
		fail("no pipe to", path);
	pid = fork();
	if (pid < 0)
		fail("could not start", path);
	if (pid == 0)
	{
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		argv[0] = path;
		execvp(path, argv);
		fail("could not start", path);
	}
	close(ends[1]);
	*from = ends[0];
	return pid;
}

int
main(int argc, char **argv)
{
	char	  **given = malloc((argc + 1) * sizeof(char *));
	char	   *line = NULL;
	size_t		room = 0;
	FILE	   *in;
	pid_t		pid;
	int			from;
	int			status;

	if (given == NULL)
		fail("no memory for", "arguments");
	/* "zheap" is a name of a resource manager here */
	for (int i = 0; i < argc; i++)
	{
		given[i] = argv[i];
		if (strcmp(argv[i], "--rmgr=" ZHEAP_RMGR_NAME) == 0)
			given[i] = "--rmgr=" CUSTOM_NAME;
		else if (i > 0 && strcmp(argv[i], ZHEAP_RMGR_NAME) == 0 &&
				 (strcmp(argv[i - 1], "-r") == 0 ||
				  strcmp(argv[i - 1], "--rmgr") == 0))
			given[i] = CUSTOM_NAME;
	}
	given[argc] = NULL;
	pid = start(given, &from);
	read_options(argc, argv);
	in = fdopen(from, "r");
	if (in == NULL)
		fail("could not read from", "pg_waldump");
	while (getline(&line, &room, in) >= 0)
		print_line(line);
	if (fflush(stdout) != 0)
		fail("could not write to", "standard output");
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}

/* ----------------------------------------------------------------
 *	what descriptions call of the server
 * ----------------------------------------------------------------
 */

char *
XLogRecGetBlockData(XLogReaderState *record, uint8 block_id, Size *len)
{
	const DecodedBkpBlock *block;

	if (!XLogRecHasBlockRef(record, block_id) ||
		!XLogRecGetBlock(record, block_id)->has_data)
	{
		if (len != NULL)
			*len = 0;
		return NULL;
	}
	block = XLogRecGetBlock(record, block_id);
	if (len != NULL)
		*len = block->data_len;
	return block->data;
}

void
appendStringInfo(StringInfo str, const char *fmt,...)
{
	va_list		args;
	int			room = str->maxlen - str->len;
	int			n;

	va_start(args, fmt);
	n = vsnprintf(str->data + str->len, room, fmt, args);
	va_end(args);
	str->len += n < room ? n : room - 1;
}

void
appendStringInfoString(StringInfo str, const char *s)
{
	appendStringInfo(str, "%s", s);
}

/* An ERROR is a record that isn't what it should be, and ends its description. */
bool
errstart(int elevel, const char *domain)
{
	return elevel >= ERROR;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	longjmp(malformed, 1);
}

