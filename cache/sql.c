/* sql.c: connections, prepared statements, error codes of SQLite. */
#include "store.h"

#include <time.h>

static const char *const statements[STX__S_COUNT] = {
#define X(name, sql) [STX__S_##name] = sql,
	STX__STATEMENTS(X)
#undef X
};

stx_err stx__sql_code(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW: return STX_E_OK;
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_PERM: return STX_E_IO;
	case SQLITE_NOMEM: return STX_E_NOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED: return STX_E_BUSY;
	case SQLITE_TOOBIG: /* larger than any row we write */
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
	case SQLITE_SCHEMA: return STX_E_CORRUPT;
	default: return STX_E_INTERNAL;
	}
}

stx_err stx__sql_err(sqlite3 *h, int rc, struct stx_diag *d)
{
	stx_err e = stx__sql_code(rc);
	const char *text = sqlite3_errstr(rc);
	if (h && (sqlite3_errcode(h) & 0xff) == (rc & 0xff))
		text = sqlite3_errmsg(h);
	const char *advice = (rc & 0xff) == SQLITE_FULL
				     ? "; free space there or give the cache another directory"
				     : "";
	return e ? stx_fail(d, e, "cache", "", "database: %s (SQLite %d)%s", text, rc, advice) : e;
}

stx_err stx__sql_exec(sqlite3 *h, const char *sql, struct stx_diag *d)
{
	int rc = sqlite3_exec(h, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? STX_E_OK : stx__sql_err(h, sqlite3_extended_errcode(h), d);
}

int stx__sql_int(sqlite3 *h, const char *sql, int64_t *out)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(h, sql, -1, &st, NULL);
	if (rc == SQLITE_OK) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW) {
			*out = sqlite3_column_int64(st, 0);
			rc = SQLITE_OK;
		} else if (rc == SQLITE_DONE) {
			rc = SQLITE_NOTFOUND;
		}
	}
	sqlite3_finalize(st);
	return rc;
}

static stx_err open_handle(struct stx__db *db, const char *path, enum stx__sql_mode mode,
			   struct stx_diag *d)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	int rc = sqlite3_open_v2(path, &db->h, flags, NULL);
	if (rc != SQLITE_OK)
		return stx__sql_err(db->h, rc, d);
	sqlite3_extended_result_codes(db->h, 1);
	sqlite3_busy_timeout(db->h, 5000);
	/* A row larger than we ever write is damage or an attack: never allocate for it. */
	sqlite3_limit(db->h, SQLITE_LIMIT_LENGTH, STX__VALUE_MAX + (1 << 20));
	sqlite3_limit(db->h, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(db->h, SQLITE_DBCONFIG_DEFENSIVE, mode != STX__LENIENT, NULL);
	sqlite3_db_config(db->h, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db->h, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db->h, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_db_config(db->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return STX_E_OK;
}

/* journal_mode=WAL answers with the mode in force, without an error, when the system cannot do it.
 */
static stx_err check_wal(sqlite3 *h, struct stx_diag *d)
{
	sqlite3_stmt *st = NULL;
	stx_err e = STX_E_OK;
	int rc = sqlite3_prepare_v2(h, "PRAGMA journal_mode", -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_ROW)
		e = stx__sql_err(h, rc, d);
	else if (sqlite3_stricmp((const char *)sqlite3_column_text(st, 0), "wal"))
		e = stx_fail(d, STX_E_USAGE, "cache", "",
			     "the file system cannot hold a database with a "
			     "write-ahead log: use another directory");
	sqlite3_finalize(st);
	return e;
}

stx_err stx__sql_open(struct stx__db *db, const char *path, enum stx__sql_mode mode,
		      struct stx_diag *d)
{
	memset(db, 0, sizeof *db);
	stx_err e = open_handle(db, path, mode, d);
	/* With it SQLite accepts a file shorter than its header says. */
	if (!e && mode == STX__LENIENT)
		e = stx__sql_exec(db->h, "PRAGMA writable_schema=ON", d);
	/* auto_vacuum has an effect only before the first table, journal_mode only outside
	 * transactions. */
	if (!e)
		e = stx__sql_exec(db->h,
				  "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL;"
				  "PRAGMA secure_delete=OFF; PRAGMA wal_autocheckpoint=0;"
				  "PRAGMA journal_size_limit=4194304; PRAGMA temp_store=MEMORY;"
				  "PRAGMA mmap_size=0; PRAGMA cell_size_check=ON;"
				  "PRAGMA cache_size=-8192;",
				  d);
	if (!e)
		e = check_wal(db->h, d);
	if (!e)
		e = stx__sql_exec(db->h,
				  mode == STX__FULL ? "PRAGMA synchronous=FULL"
						    : "PRAGMA synchronous=NORMAL",
				  d);
	if (!e && mode == STX__LENIENT)
		e = stx__sql_exec(db->h, "PRAGMA cell_size_check=OFF", d);
	if (e)
		stx__sql_close(db);
	return e;
}

void stx__sql_close(struct stx__db *db)
{
	for (int i = 0; i < STX__S_COUNT; i++)
		sqlite3_finalize(db->st[i]);
	sqlite3_close(db->h);
	memset(db, 0, sizeof *db);
}

sqlite3_stmt *stx__sql(struct stx__db *db, enum stx__statement s)
{
	if (!db->st[s] && sqlite3_prepare_v3(db->h, statements[s], -1, SQLITE_PREPARE_PERSISTENT,
					     &db->st[s], NULL) != SQLITE_OK)
		return NULL;
	sqlite3_reset(db->st[s]);
	sqlite3_clear_bindings(db->st[s]);
	return db->st[s];
}

int stx__sql_run(struct stx__db *db, enum stx__statement s)
{
	sqlite3_stmt *st = stx__sql(db, s);
	if (!st)
		return sqlite3_extended_errcode(db->h);
	int rc;
	do
		rc = sqlite3_step(st);
	while (rc == SQLITE_ROW);
	sqlite3_reset(st);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

const void *stx__sql_blob(sqlite3_stmt *st, int col, size_t n)
{
	if (sqlite3_column_type(st, col) != SQLITE_BLOB)
		return NULL;
	const void *p = sqlite3_column_blob(st, col);
	return p && (size_t)sqlite3_column_bytes(st, col) == n ? p : NULL;
}
