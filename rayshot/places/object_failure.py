"""From the error text of an object storage's client to our errors.

Our messages never repeat the text: it holds addresses with signatures, and has many lines. They use the status, the
service's own word for the failure, and how a connection was lost.
"""

import re

from rayshot.errors import AlreadyExists, KeyNotFound, StoreError, StoreFull, StoreUnavailable
from rayshot.places.address import Address

_STATUS = re.compile(r"status code: ([1-5]\d\d)")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_LOST = re.compile(r"HttpError \{\s*kind: (\w{1,32})")
_METADATA_HOST = "169.254.169.254"

_BEHIND_THE_END = 416
_NOT_FOUND = 404
_FULL = 507
_DENIED = {401, 403}
_NO_CONDITIONS = 501
_MOVED = {301, 307, 308}
_TAKEN = {"AlreadyExistsError", "PreconditionError"}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_NO_ROOM = {"QuotaExceeded", "XMinioStorageFull"}
_LOST_HOW = {
    "Connect": "it cannot be reached",
    "Timeout": "it did not answer in time",
    "Interrupted": "the connection was lost",
}
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_CLIENT_ID with its secret and tenant",
}
_MISCONFIGURED = {
    "Account must be specified": "no storage account is named: add ?account=NAME or set AZURE_STORAGE_ACCOUNT_NAME",
    "Invalid Access Key": "AZURE_STORAGE_ACCOUNT_KEY is not the base64 text that the portal shows",
    "Unable to open service account file": "the file that GOOGLE_APPLICATION_CREDENTIALS names cannot be opened",
    "Unable to decode service account file": "what GOOGLE_APPLICATION_CREDENTIALS names is not a service account",
}


def is_behind_the_end(error: Exception) -> bool:
    """Whether the range began at or behind the end of the object."""
    return _status(str(error)) == _BEHIND_THE_END or "StartTooLarge" in str(error)


def failure(error: Exception, address: Address, key: str = "", size: int = 0) -> StoreError:
    """The store error for the object `key` (of `size` bytes) at `address`.

    AlreadyExists and KeyNotFound are clear answers of the store. StoreFull means that nothing was written. All other
    errors are StoreUnavailable; then a write may or may not have had its effect.
    """
    text = str(error)
    status = _status(text)
    found = _CODE.search(text)
    code = found[1] if found else ""
    what = f"{address.place}/{key}" if key else address.place
    if code in _NO_BUCKET:
        return StoreUnavailable(f"there is no bucket {address.bucket!r} ({code}); make it first", bucket=address.bucket)
    if type(error).__name__ in _TAKEN:
        return AlreadyExists(f"{what} exists already", key=key)
    if isinstance(error, FileNotFoundError) or status == _NOT_FOUND:
        return KeyNotFound(f"{what} does not exist", key=key)
    if status == _FULL or code in _NO_ROOM:
        return StoreFull(f"no room for {size:,} bytes at {what} ({status} {code})", path=what, bytes=size)
    return StoreUnavailable(f"{what}: {_reason(text, status, code, address)}", key=key, status=status)


def _status(text: str) -> int | None:
    """The HTTP status in an error of the client; None without an answer."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _reason(text: str, status: int | None, code: str, address: Address) -> str:
    answer = f"{status} {code}".strip()
    for sign, meaning in _MISCONFIGURED.items():
        if sign in text:
            return meaning
    if _METADATA_HOST in text or "token request" in text:
        return f"no usable credentials were found; set {_CREDENTIALS[address.cloud]}"
    if status in _DENIED:
        return f"access is refused ({answer}); check {_CREDENTIALS[address.cloud]} and what they may do"
    if status == _NO_CONDITIONS:
        return f"it has no conditional create ({answer}); read about allow_unfenced: rayshot help storage"
    if status in _MOVED:
        return f"the bucket is elsewhere ({answer}); give its region in the address: ?region=..."
    if status is not None:
        return f"the storage answered {answer}"
    lost = _LOST.search(text)
    return _LOST_HOW.get(lost[1] if lost else "", "the call failed without an answer")
