"""Serve the console's static files; the URL has the hash of the content, so a browser keeps a file for ever."""

import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import NOT_FOUND
from shardclock_server.gateway.console.addresses import ROOT, url_of
from shardclock_server.gateway.console.compression import GZIP, accepts_gzip, compressed
from shardclock_server.gateway.requests.problems import Problem

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
KEPT = "public, max-age=31536000, immutable"
CHECKED = "no-cache"  # a changed file has another hash in its URL

router = APIRouter(prefix=f"{ROOT}/static", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file, with the hash of the file's content."""

    body: bytes
    zipped: bytes
    digest: str
    media_type: str


def _read(file: Path) -> Asset:
    body = file.read_bytes()
    return Asset(body, compressed(body), hashlib.sha256(body).hexdigest()[:16], MEDIA_TYPES[file.suffix])


ASSETS = {file.name: _read(file) for file in sorted(FOLDER.iterdir()) if file.suffix in MEDIA_TYPES}


def asset_url(request: Request, name: str) -> str:
    """Return the URL of a static file."""
    return url_of(request, f"/static/{ASSETS[name].digest}/{name}")


@router.get("/{digest}/{name}")
async def get_asset(digest: str, name: str, request: Request) -> Response:
    """Serve a static file. The files need no sign-in, because the sign-in page uses the style sheet."""
    asset = ASSETS.get(name)
    if asset is None:
        raise Problem(NOT_FOUND, f"there is no file {name[:100]} here")
    etag = f'W/"{asset.digest}"'  # weak, because the compressed file has the same etag
    headers = {
        "ETag": etag,
        "Cache-Control": KEPT if digest == asset.digest else CHECKED,
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("If-None-Match") == etag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if accepts_gzip(request):
        return Response(asset.zipped, media_type=asset.media_type, headers=headers | GZIP)
    return Response(asset.body, media_type=asset.media_type, headers=headers)
