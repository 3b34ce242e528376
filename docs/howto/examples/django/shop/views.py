"""Web workers own nothing. They read the ledger and control schedules like any other client."""

from functools import cache

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from calsched import App, Refused


@cache
def schedules() -> App:
    return App(settings.CALSCHED_STORE)


def show(request: HttpRequest, id: str) -> JsonResponse:
    view = schedules().get(id)
    return JsonResponse({"id": view.id, "state": view.state, "next due": view.next_due})


@csrf_exempt  # for the example; yours are behind a login
@require_POST
def control(request: HttpRequest, id: str, action: str) -> JsonResponse:
    act = {"pause": schedules().pause, "resume": schedules().resume}[action]
    try:
        view = act(id, note=f"by {request.META.get('REMOTE_USER', 'somebody')} on the web")
    except Refused as refused:
        return JsonResponse({"error": str(refused)}, status=409)
    return JsonResponse({"id": view.id, "state": view.state})
