#!/usr/bin/env python3
"""Draws page.svg, update.svg and rollback.svg beside this script."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE, UNDO, MARK, LINE = "#e8f0fe", "#fef3e0", "#fde0dc", "#5f6368"


class Picture:
    def __init__(self, name, width, height, title):
        self.name = name
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            f"<title>{title}</title>",
            '<defs><marker id="a" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def box(self, x, y, w, h, text, fill="white", dash=False):
        style = ' stroke-dasharray="4 3"' if dash else ""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" '
                          f'fill="{fill}" stroke="{LINE}"{style}/>')
        lines = text.split("\n")
        for i, line in enumerate(lines):
            at = y + h / 2 + 5 + (i - (len(lines) - 1) / 2) * 16
            self.text(x + w / 2, at, line, "middle")

    def text(self, x, y, text, anchor="start"):
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#202124">{text}</text>')

    def arrow(self, x1, y1, x2, y2):
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" '
                          'stroke-width="1.5" marker-end="url(#a)"/>')

    def write(self):
        with open(os.path.join(HERE, self.name), "w") as out:
            out.write("\n".join(self.parts + ["</svg>", ""]))


def page():
    p = Picture("page.svg", 760, 300, "A page of a zheap table and its undo")
    p.text(20, 24, "table page")
    p.box(20, 36, 340, 240, "", TABLE)
    p.box(32, 48, 316, 26, "page header | line pointers 1 2 3")
    p.box(32, 110, 316, 34, "row 3   slot 2 | v = 30")
    p.box(32, 148, 316, 34, "row 2   slot 1 | v = 21")
    p.box(32, 186, 316, 34, "row 1   slot 0 (visible to all) | v = 10")
    p.box(32, 232, 156, 32, "slot 1: xid 905", MARK)
    p.box(192, 232, 156, 32, "slot 2: xid 911", MARK)
    p.text(470, 24, "undo log")
    p.box(470, 36, 270, 240, "", UNDO)
    p.box(482, 60, 246, 40, "xid 898: discarded", dash=True)
    p.box(482, 120, 246, 48, "xid 905: update of row 2\nv was 20")
    p.box(482, 186, 246, 48, "xid 911: insert of row 3")
    p.arrow(188, 240, 480, 150)
    p.arrow(348, 252, 480, 214)
    p.write()


def update():
    p = Picture("update.svg", 760, 250, "An update in place")
    p.text(20, 24, "before")
    p.box(20, 36, 220, 60, "row 1  slot 0\nv = 10", TABLE)
    p.box(20, 100, 220, 30, "slot 1: free", MARK)
    p.arrow(250, 80, 320, 80)
    p.text(262, 68, "UPDATE")
    p.text(330, 24, "after, in one WAL record")
    p.box(330, 36, 200, 60, "row 1  slot 1\nv = 11", TABLE)
    p.box(330, 100, 200, 30, "slot 1: xid 920", MARK)
    p.box(590, 92, 150, 48, "undo: v was 10", UNDO)
    p.arrow(530, 115, 588, 115)
    p.text(20, 180, "A new snapshot sees xid 920: it reads v = 11 from the page, no undo.")
    p.text(20, 204, "An older one does not: it follows slot 1 to undo and reads v = 10.")
    p.text(20, 228, "When no older one is left, the undo record is discarded.")
    p.write()


def rollback():
    p = Picture("rollback.svg", 760, 270, "A rollback")
    p.box(20, 30, 160, 44, "ROLLBACK", MARK)
    p.arrow(180, 52, 240, 52)
    p.box(242, 30, 200, 44, "answered; xid is aborted")
    p.arrow(342, 74, 342, 112)
    p.box(30, 114, 210, 50, "the session itself:\na small one, at once", TABLE)
    p.box(270, 114, 210, 50, "a worker:\nthe rest, in background", TABLE)
    p.box(510, 114, 220, 50, "who needs the page:\nthat page, by the way", TABLE)
    for x in (135, 375, 620):
        p.arrow(x, 164, x, 198)
    p.box(30, 200, 700, 24, "page by page: old versions back from undo, logged")
    p.text(30, 252, "All pages of a run done: the run is marked as applied, and its undo may be discarded.")
    p.write()


page()
update()
rollback()
