-- A store's file of schema version 1 with a little of everything in it, as its SQLite wrote it.
BEGIN TRANSACTION;
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    feed INTEGER NOT NULL,
    key TEXT NOT NULL,
    "index" INTEGER,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    acknowledged INTEGER NOT NULL DEFAULT 0,
    at REAL NOT NULL,
    UNIQUE (feed, key)
);
INSERT INTO "event" VALUES(1,1,'new:1',1,'new',X'',1,30.0);
INSERT INTO "event" VALUES(2,1,'gap:7',NULL,'gap',X'7061796C6F6164',0,20.0);
INSERT INTO "event" VALUES(3,1,'new:2',2,'new',X'7061796C6F6164',0,20.0);
INSERT INTO "event" VALUES(4,2,'new:1',1,'new',X'7061796C6F6164',0,20.0);
CREATE TABLE feed (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    base_url TEXT NOT NULL,
    account TEXT NOT NULL,
    state TEXT,
    epoch INTEGER NOT NULL,
    holder TEXT,
    lease_until REAL NOT NULL
);
INSERT INTO "feed" VALUES(1,'requests','https://host/api','me@co.example','{"epoch":1}',1,NULL,0.0);
INSERT INTO "feed" VALUES(2,'bids','https://host/api','me@co.example','other',1,NULL,0.0);
CREATE TABLE seen (
    feed INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    digest BLOB NOT NULL,
    record BLOB,
    version INTEGER NOT NULL,
    first REAL NOT NULL,
    last REAL NOT NULL,
    scan INTEGER NOT NULL,
    updated_after REAL NOT NULL,
    missing INTEGER NOT NULL,
    PRIMARY KEY (feed, "index")
) WITHOUT ROWID;
INSERT INTO "seen" VALUES(1,1,X'6431',X'7B317D',1,10.0,10.0,1,5.0,0);
INSERT INTO "seen" VALUES(1,2,X'6432',X'7B327D',1,10.0,20.0,1,5.0,0);
INSERT INTO "seen" VALUES(1,3,X'6433',X'7B337D',1,10.0,30.0,1,5.0,0);
INSERT INTO "seen" VALUES(1,4,X'6434',NULL,1,10.0,20.0,1,5.0,0);
INSERT INTO "seen" VALUES(1,5,X'',X'7B357D',1,10.0,20.0,1,5.0,0);
INSERT INTO "seen" VALUES(2,1,X'6431',X'7B317D',9,10.0,20.0,1,5.0,0);
CREATE INDEX seen_live ON seen (feed, updated_after) WHERE record IS NOT NULL AND digest <> x'';
CREATE INDEX seen_kept ON seen (feed, last) WHERE record IS NOT NULL;
CREATE INDEX event_about ON event (feed, "index") WHERE "index" IS NOT NULL;
CREATE INDEX event_pending ON event (feed) WHERE acknowledged = 0;
CREATE INDEX event_kind ON event (feed, kind) WHERE acknowledged = 0;
CREATE INDEX event_done ON event (feed, at) WHERE acknowledged = 1;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',4);
COMMIT;
PRAGMA application_id = 1180193620;
PRAGMA user_version = 1;
