"""All tables of snapshots, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from rayshot.analysis.cut_views import CUT_VIEWS
from rayshot.analysis.diff_views import DIFF_VIEWS
from rayshot.analysis.element_views import ELEMENT_VIEWS
from rayshot.analysis.log_views import LOG_VIEWS
from rayshot.analysis.message_views import MESSAGE_VIEWS
from rayshot.analysis.state_views import STATE_VIEWS
from rayshot.analysis.view import View
from rayshot.analysis.waiting_views import WAITING_VIEWS

_ALL = (*LOG_VIEWS, *CUT_VIEWS, *STATE_VIEWS, *ELEMENT_VIEWS, *WAITING_VIEWS, *MESSAGE_VIEWS, *DIFF_VIEWS)
VIEWS: Mapping[str, View] = MappingProxyType({view.name: view for view in _ALL})
