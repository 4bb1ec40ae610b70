"""The only room of the runtime that imports Ray. Other rooms make, call and find processes through `door`.

Whatever is imported from here first refuses a Ray that is missing or unfit, in one error.
"""

from rayshot.runtime.door.private_names import check_ray

check_ray()
