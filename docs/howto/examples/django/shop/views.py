"""Web workers own nothing. They read the ledger and control schedules like any other client."""

from datetime import UTC, datetime
from functools import cache

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from calsched import App, Refused
from calsched.errors import UnknownSchedule


@cache
def schedules() -> App:
    return App(settings.CALSCHED_STORE)


def show(request: HttpRequest, id: str) -> JsonResponse:
    try:
        view = schedules().get(id)
    except UnknownSchedule as unknown:
        return JsonResponse({"error": str(unknown)}, status=404)
    due = None if view.next_due is None else datetime.fromtimestamp(view.next_due / 1000, UTC)
    return JsonResponse({"id": view.id, "state": view.state, "next due": due})


@csrf_exempt  # for the example; yours are behind a login
@require_POST
def control(request: HttpRequest, id: str, action: str) -> JsonResponse:
    act = {"pause": schedules().pause, "resume": schedules().resume}.get(action)
    if act is None:
        return JsonResponse({"error": f"pause or resume, not {action}"}, status=404)
    try:
        view = act(id, note=f"by {request.META.get('REMOTE_USER', 'somebody')} on the web")
    except Refused as refused:
        return JsonResponse({"error": str(refused)}, status=409)
    return JsonResponse({"id": view.id, "state": view.state})
