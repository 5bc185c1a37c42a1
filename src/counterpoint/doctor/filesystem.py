"""File systems by where they keep things: on this host, or where others see it too."""

from __future__ import annotations

from typing import Final

_REMOTE: Final = frozenset(
    {
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "wekafs"),
        *("glusterfs", "orangefs", "pvfs2", "virtiofs", "panfs", "daos", "juicefs", "vastnfs"),
    }
)
_REMOTE_FUSE: Final = (
    "gcsfuse",
    "s3fs",
    "goofys",
    "sshfs",
    "rclone",
    "blobfuse",
    "juicefs",
    "weka",
)


def is_remote(kind: str) -> bool:
    """Whether several hosts can see it, by the type that `/proc/mounts` names."""
    return kind in _REMOTE or any(word in kind for word in _REMOTE_FUSE)
